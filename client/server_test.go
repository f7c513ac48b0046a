package client

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/servertest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// serveUntil runs a Conclave server until stop is called or the test ends, and
// returns its address.
func serveUntil(t *testing.T, fs vfs.FS) (addr string, stop func()) {
	t.Helper()
	return serveWith(t, fs, func(*server.Config) {})
}

// serveWith is serveUntil with a changed configuration.
func serveWith(t *testing.T, fs vfs.FS, change func(*server.Config)) (addr string, stop func()) {
	t.Helper()
	return servertest.StartUntil(t, func(config *server.Config) { config.FS, config.ExtendedTypes = fs, true }, change)
}

// The best-known server that claims to be compatible silently gives such a
// client a new session.
func TestASessionAndItsWatchesSurviveARestartOfTheServer(t *testing.T) {
	disk := vfs.NewMem()
	addr, stop := serveUntil(t, disk)
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
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

func TestTheSuitePassesAgainstConclaveWithASlowDisk(t *testing.T) {
	addr, _ := serveUntil(t, servertest.SlowDisk(vfs.NewMem(), 5*time.Millisecond))
	runSuite(t, addr)
}
