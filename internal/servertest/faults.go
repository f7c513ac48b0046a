package servertest

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
)

// SlowDisk returns a disk whose new files take this long to sync, as on real disks: a write
// is in progress long enough to be overtaken.
func SlowDisk(disk vfs.FS, sync time.Duration) vfs.FS { return slowDisk{disk, sync} }

type slowDisk struct {
	vfs.FS
	sync time.Duration
}

func (d slowDisk) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return slowFile{f, d.sync}, err
}

type slowFile struct {
	vfs.File
	sync time.Duration
}

func (f slowFile) Sync() error {
	awaittest.RealTime(f.sync, "the disk is slow")
	return f.File.Sync()
}

// Links dials like net.Dialer and can close the connections that it has opened.
type Links struct {
	mu    sync.Mutex
	conns []net.Conn
}

// Dial is for client.Options.
func (l *Links) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

// Cut closes the connections opened so far.
func (l *Links) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}
