package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// The interval is the one that the operator has set, no matter how long a tick
// is.
func TestContainersGoAtTheirOwnInterval(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.TickTime, c.ReapInterval = 20*time.Second, 10*time.Millisecond
	})
	p := dial(t, s, nil)
	for i := range 40 {
		path := fmt.Sprintf("/c%d", i)
		p.do(zk.Request{Op: zk.OpCreateContainer, Path: path, Mode: zk.Container, ACL: zk.OpenACL(), TTL: -1})
		p.do(create(path+"/x", "", 0))
		p.do(zk.Request{Op: zk.OpDelete, Path: path + "/x", Version: -1})
	}
	awaittest.Until(t, "40 containers are gone", func() bool {
		_, res := p.do(zk.Request{Op: zk.OpGetChildren, Path: "/"})
		return len(res.Children) == 1
	})
}

func TestEmptyContainersAndOldTTLZnodesGo(t *testing.T) {
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.ExtendedTypes, c.ReapInterval = true, 50*time.Millisecond
	})
	p := dial(t, s, nil)
	p.do(zk.Request{Op: zk.OpCreateContainer, Path: "/c", Mode: zk.Container, ACL: zk.OpenACL(), TTL: -1})
	p.do(zk.Request{Op: zk.OpCreateTTL, Path: "/t", Mode: zk.PersistentTTL, ACL: zk.OpenACL(), TTL: 1})
	p.do(create("/c/x", "", 0))
	p.do(zk.Request{Op: zk.OpDelete, Path: "/c/x", Version: -1})
	awaittest.Until(t, "container and ttl znode gone", func() bool {
		c, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/c"})
		ttl, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/t"})
		return c == zk.ErrNoNode && ttl == zk.ErrNoNode
	})
}
