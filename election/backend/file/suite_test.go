package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
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
		Delete: func(t testing.TB, url, name string) {
			if err := os.RemoveAll(filepath.Join(url, name)); err != nil {
				t.Fatal(err)
			}
		},
		URL: storetest.Dir, OpenTroubled: openTroubled, Store: "a directory, local disk",
	})
}

// trouble is a disk whose syncs take long, or fail after their work is done.
type trouble struct {
	slow atomic.Int64
	mute atomic.Bool
}

func openTroubled(t testing.TB, url string) (election.Backend, electiontest.Trouble) {
	b, err := file.New(url)
	if err != nil {
		t.Fatal(err)
	}
	var disk trouble
	b.SetFault(disk.fault)
	return b, &disk
}

func (d *trouble) Slow(by time.Duration) { d.slow.Store(int64(by)) }
func (d *trouble) Mute()                 { d.mute.Store(true) }
func (d *trouble) Heal()                 { d.Slow(0); d.mute.Store(false) }

// fault is called before each operation on the disk. Failing before the last operation
// of a change, the sync of the directory, is late enough: all others are done.
func (d *trouble) fault(operation string) error {
	if operation == "sync" || operation == "syncdir" {
		awaittest.RealTime(time.Duration(d.slow.Load()), "the disk is slow")
	}
	if operation == "syncdir" && d.mute.Load() {
		return errors.New("the disk does not confirm it")
	}
	return nil
}
