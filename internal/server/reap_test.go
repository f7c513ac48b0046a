package server

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

func TestEmptyContainersAndOldTTLZnodesGo(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ExtendedTypes, c.ReapInterval = true, 50*time.Millisecond
	})
	p := dial(t, s, nil)
	p.do(zk.Request{Op: zk.OpCreateContainer, Path: "/c", Mode: zk.Container, ACL: zk.OpenACL(), TTL: -1})
	p.do(zk.Request{Op: zk.OpCreateTTL, Path: "/t", Mode: zk.PersistentTTL, ACL: zk.OpenACL(), TTL: 1})
	p.do(create("/c/x", "", 0))
	p.do(zk.Request{Op: zk.OpDelete, Path: "/c/x", Version: -1})
	eventually(t, "container and ttl znode gone", func() bool {
		c, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/c"})
		ttl, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/t"})
		return c == zk.ErrNoNode && ttl == zk.ErrNoNode
	})
}
