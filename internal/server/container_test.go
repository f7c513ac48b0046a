package server

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// A container that never had a child stays with its data, unless the configuration says
// otherwise. ZooKeeper 3.5 to 3.9, whose directories are taken over, behave like that.
func TestContainerThatNeverHadAChildStays(t *testing.T) {
	var hours atomic.Int64
	s := start(t, vfs.NewMem(), func(c *Config) {
		c.Wall = func() time.Time { return time.Now().Add(time.Duration(hours.Add(1)) * time.Hour) }
		c.ReapInterval = time.Millisecond
	})
	p := dial(t, s, nil)
	contain := func(path string) {
		t.Helper()
		r := zk.Request{Op: zk.OpCreateContainer, Path: path, ACL: zk.OpenACL(), Mode: zk.Container}
		if code, _ := p.do(r); code != zk.OK {
			t.Fatal(code)
		}
	}
	contain("/settings")
	contain("/used")
	p.do(create("/used/child", "", zk.Persistent))
	p.do(zk.Request{Op: zk.OpDelete, Path: "/used/child", Version: -1})
	awaittest.Until(t, "the other one goes", func() bool {
		code, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/used"})
		return code == zk.ErrNoNode
	})
	if code, _ := p.do(zk.Request{Op: zk.OpExists, Path: "/settings"}); code != zk.OK {
		t.Errorf("the container was deleted: %v", code)
	}
}
