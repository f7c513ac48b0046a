package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// A session that goes on after a restore may have seen a znode as it was set later, and its watch is not told
// by zxids that it has been taken back.
func TestWatchesFromBeforeARestoreFire(t *testing.T) {
	s := newScript(t)
	s.command([]string{"connect", "1"})
	s.step()
	z := s.replica.tree
	z.Lock()
	z.Apply(&zk.TxnHeader{Zxid: zk.MakeZxid(3, 2), Op: zk.OpCreate}, &zk.Txn{Op: zk.OpCreate, Path: "/a", ACL: zk.OpenACL()}, &tree.Applied{})
	z.SetLastZxid(zk.MakeZxid(3+RestoredEpochs, 0))
	z.Unlock()
	for _, c := range []struct {
		since zk.Zxid
		fire  bool
	}{{zk.MakeZxid(3, 9), true}, {zk.MakeZxid(4, 0), false}, {zk.MakeZxid(3+RestoredEpochs, 1), false}} {
		set := &zk.SetWatches{RelativeZxid: c.since, Data: []string{"/", "/a"}, Child: []string{"/a"}}
		events, _ := s.replica.Reader().setWatches(set, Caller{Conn: 1}, nil)
		if fired := len(events) == 3; fired != c.fire || len(events) > 0 != c.fire {
			t.Errorf("since %v: %v", c.since, events)
		}
		if has := s.replica.Reader().Watches.Remove(1, zk.WatcherData, "/a"); has == c.fire {
			t.Errorf("since %v: set %v", c.since, has)
		}
	}
}
