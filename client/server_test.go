package client

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// serveUntil runs a Conclave server until stop or the test ends, and returns
// its address.
func serveUntil(t *testing.T, fs vfs.FS) (addr string, stop func()) {
	t.Helper()
	return serveWith(t, fs, nil)
}

// serveWith is serveUntil with another configuration.
func serveWith(t *testing.T, fs vfs.FS, change func(*server.Config)) (addr string, stop func()) {
	t.Helper()
	config := server.Default()
	config.FS, config.DataDir, config.ClientAddr = fs, "data", "127.0.0.1:0"
	config.TickTime, config.ExtendedTypes, config.PreallocBytes = 500*time.Millisecond, true, 1<<20
	config.Logger = slog.New(slog.DiscardHandler)
	if change != nil {
		change(&config)
	}
	s, err := server.New(config)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return s.Addr().String(), stop
}

// The best-known server that calls itself compatible gives such a client a new
// session in silence.
func TestASessionAndItsWatchesSurviveARestartOfTheServer(t *testing.T) {
	disk := vfs.NewMem()
	addr, stop := serveUntil(t, disk)
	c, ctx := dialed(t, addr, Options{}), within(t)
	top := home(t, c)
	_, _, err := c.Create(ctx, top+"/e", nil, CreateOptions{Mode: zk.Ephemeral})
	must(t, err)
	_, _, w, err := c.GetW(ctx, top)
	must(t, err)
	id := c.SessionID()
	stop()
	addr, _ = serveUntil(t, disk)
	must(t, c.SetServers(addr))
	stat, found, err := c.Exists(ctx, top+"/e")
	if !found || err != nil || stat.EphemeralOwner != int64(id) || c.SessionID() != id {
		t.Errorf("session %v, stat %+v, %v", c.SessionID(), stat, err)
	}
	_, err = c.Set(ctx, top, nil, -1)
	must(t, err)
	wantEvent(t, w, zk.EventNodeDataChanged, top)
}

func TestTheSuitePassesAgainstConclave(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	runSuite(t, addr)
}

// slow is a disk whose syncs take their time, as real ones do.
type slow struct{ vfs.FS }

type slowFile struct{ vfs.File }

func (s slow) Create(name string) (vfs.File, error) {
	f, err := s.FS.Create(name)
	return slowFile{f}, err
}

func (f slowFile) Sync() error {
	time.Sleep(5 * time.Millisecond)
	return f.File.Sync()
}

func TestTheSuitePassesAgainstConclaveWithASlowDisk(t *testing.T) {
	addr, _ := serveUntil(t, slow{vfs.NewMem()})
	runSuite(t, addr)
}
