package file_test

import (
	"os"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/electiontest"
)

func open(url string) (election.Backend, error) { return file.New(url) }

func TestMain(m *testing.M) { os.Exit(electiontest.Main(m, open)) }

func TestFileBackendPassesTheSuite(t *testing.T) {
	electiontest.Run(t, electiontest.Suite{
		Open: func(t testing.TB, url string) election.Backend {
			backend, err := open(url)
			if err != nil {
				t.Fatal(err)
			}
			return backend
		},
		URL: emptyDir,
	})
}

// emptyDir is on a disk, except for the test that elects thousands of times:
// each election waits twice for the disk.
func emptyDir(t testing.TB) string {
	if !strings.Contains(t.Name(), "Thousands") {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "conclave-test-")
	if err != nil {
		return t.TempDir() // a system without it
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
