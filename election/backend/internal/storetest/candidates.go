package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// Opener is the function Open of a backend's package.
type Opener func(ctx context.Context, url string) (election.Backend, func() error, error)

// Open opens a backend until the test ends.
func (o Opener) Open(t testing.TB, url string) election.Backend {
	t.Helper()
	backend, end, err := o(awaittest.Within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return backend
}

// Fresh opens a backend as a new process does; it stays open until this process ends.
func (o Opener) Fresh(url string) (election.Backend, error) {
	backend, _, err := o(context.Background(), url)
	return backend, err
}

// Main is TestMain of a package that runs the suite of elections.
func (o Opener) Main(m *testing.M) { os.Exit(electiontest.Main(m, o.Fresh)) }

// RefusesURLs fails the test unless each of the URLs, all with the password "secret", is
// refused with a permanent error that has the advice and not the password.
func (o Opener) RefusesURLs(t *testing.T, advice string, urls ...string) {
	t.Helper()
	for _, url := range urls {
		_, _, err := o(t.Context(), url)
		switch {
		case err == nil:
			t.Errorf("%s: no error", url)
		case !errors.Is(err, election.ErrPermanent):
			t.Errorf("%s: not permanent: %v", url, err)
		case !strings.Contains(err.Error(), advice):
			t.Errorf("%s: no advice: %v", url, err)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: tells the password: %v", url, err)
		}
	}
}

// HidesPasswords fails the test unless two kinds of URLs are refused as by RefusesURLs:
// those with a password that do not take any, and those that cannot be parsed.
func (o Opener) HidesPasswords(t *testing.T, scheme, advice string) {
	t.Helper()
	var urls []string
	for _, rest := range []string{"://user:secret@host/path?nonsense=1", "://user:secret@host:99/path?nonsense=1", "x://user:secret@host:99/path",
		"://user:secret@host:abc/path", "://user:/secret@host/path", "://user:secret@%zz", "://host:99?password=secret", ":secret@host"} {
		urls = append(urls, scheme+rest)
	}
	o.RefusesURLs(t, advice, urls...)
}

// acquireTries is how often a candidate asks a store that has just been restarted;
// acquirePause is the time between two attempts.
const (
	acquireTries = 100
	acquirePause = 50 * time.Millisecond
)

// Acquire campaigns in the election "e" until it leads, and returns the grant. It tries
// again over connections that a restart has broken.
func Acquire(t testing.TB, b election.Backend, id string, lease time.Duration) election.Grant {
	t.Helper()
	nonce := fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	for range acquireTries {
		grant, err := b.Acquire(awaittest.Within(t), election.Claim{Election: "e", ID: id, Nonce: nonce, Lease: lease})
		if err == nil {
			return grant
		}
		t.Log(err)
		time.Sleep(acquirePause)
	}
	t.Fatalf("%s is not elected", id)
	return election.Grant{}
}

// Dir returns an empty directory for a test of electiontest. It is on a disk, except for
// the test that elects thousands of times, which would wait for the disk each time.
func Dir(t testing.TB) string {
	if !strings.Contains(t.Name(), "Thousands") {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("/dev/shm", "conclave-test-")
	if err != nil {
		return t.TempDir() // this system has no directory in memory
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
