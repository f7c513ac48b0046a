package server

import (
	"bytes"
	"context"
	"net"
	"strings"

	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/vfs"
)

// stormMutant puts a bug around a server.
type stormMutant func(c *Config)

var stormMutants = []struct {
	name, what string
	put        stormMutant
}{
	{"says-no-address", "no server says where its election port is", func(c *Config) {
		dial, id := c.PeerDial, c.ID
		c.PeerDial = func(ctx context.Context, network, address string) (net.Conn, error) {
			socket, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &shyConn{Conn: socket, short: jute.AppendLong(nil, int64(id))}, nil
		}
	}},
	{"first-address-kept", "servers look for others where the first configuration has them", func(c *Config) {
		dial := c.PeerDial
		c.PeerDial = func(ctx context.Context, network, address string) (net.Conn, error) {
			host, port, _ := net.SplitHostPort(address)
			return dial(ctx, network, net.JoinHostPort(host, port[:3]+"8")) // 2888, 3888
		}
	}},
	{"fast-clocks", "the clocks of servers are twice as fast, so that sessions expire early", func(c *Config) { c.Clock = bubble.Clock(2) }},
	{"unsynced-log", "no record of the log is synced", func(c *Config) { c.FS = forgetful{c.FS} }},
}

// shyConn sends only its number where it should send its addresses as well.
type shyConn struct {
	net.Conn
	short []byte
}

func (c *shyConn) Write(b []byte) (int, error) {
	if n, whole, err := peerwire.InitialBytes(b); c.short != nil && whole && err == nil && n == len(b) && !bytes.Equal(b, c.short) {
		b, c.short = c.short, nil
		_, err := c.Conn.Write(b)
		return n, err
	}
	c.short = nil
	return c.Conn.Write(b)
}

// forgetful is a disk on which no record of the log becomes durable.
type forgetful struct{ vfs.FS }

func (f forgetful) Create(name string) (vfs.File, error) {
	return unsyncedLog(name)(f.FS.Create(name))
}

func (f forgetful) OpenReadWrite(name string) (vfs.File, error) {
	return unsyncedLog(name)(f.FS.OpenReadWrite(name))
}

func unsyncedLog(name string) func(vfs.File, error) (vfs.File, error) {
	return func(file vfs.File, err error) (vfs.File, error) {
		if err != nil || !ofLog(name) {
			return file, err
		}
		return unsynced{file}, nil
	}
}

// ofLog reports whether a file is a part of the log, or the space for its next segment.
func ofLog(name string) bool {
	return strings.Contains(name, "/log.") || strings.HasSuffix(name, "/reserve")
}

type unsynced struct{ vfs.File }

func (unsynced) Sync() error { return nil }
