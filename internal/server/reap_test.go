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
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		c, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/c"})
		ttl, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/t"})
		if c == zk.ErrNoNode && ttl == zk.ErrNoNode {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("container %v, ttl znode %v", c, ttl)
		}
	}
}
