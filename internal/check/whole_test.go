package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

func TestAsked(t *testing.T) {
	play(t, []history{
		{"as asked", "asks 1 create /a data=x\nmade 1.2 create /a data=x xid=1\nasks 2 delete /a\nmade 1.3 delete /a xid=2", ""},
		{"a refusal", "asks 1 create /a\nmade 1.2 error exists xid=1\nnot-applied 1", ""},
		{"by the server itself", "made 1.2 close /a\nmade 1.3 delete /a", ""},
		{"a number", "asks 1 create /a/n numbered\nmade 1.2 create /a/n0000000003 xid=1", ""},
		{"a multi", "asks 1 create /a ; delete /b\nmade 1.2 create /a ; delete /b xid=1", ""},
		{"a multi that failed", "made 1.2 create /a ; error exists xid=1", ""},
		{"A1 never sent", "asks 1 create /a\nmade 1.2 create /a xid=2", "A1"},
		{"A1 another's", "asks 1 create /a\nmade 1.2 create /a xid=1 session=2", "A1"},
		{"A1 another path", "asks 1 delete /a\nmade 1.2 delete /b xid=1", "A1"},
		{"A1 other data", "asks 1 create /a data=x\nmade 1.2 create /a data=y xid=1", "A1"},
		{"A1 another life", "asks 1 create /a eph\nmade 1.2 create /a xid=1", "A1"},
		{"A1 another operation", "asks 1 create /a\nmade 1.2 delete /a xid=1", "A1"},
		{"A1 another TTL", "asks 1 create /a ttl=100\nmade 1.2 create /a ttl=10 xid=1", "A1"},
		{"A1 half a multi", "asks 1 create /a ; delete /b\nmade 1.2 create /a xid=1", "A1"},
		{"A2 told before", "asks 1 create /a\nnot-applied 1\nmade 1.2 create /a xid=1", "A2"},
		{"A2 told after", "asks 1 create /a\nmade 1.2 create /a xid=1\nnot-applied 1", "A2"},
	})
}

func TestWholeTrees(t *testing.T) {
	p := newPlayer()
	for line := range strings.Lines(open + "txn 1.2 create /a data=x\ntxn 1.3 create /a/e eph\ntxn 1.4 create /c container\ntxn 1.5 set /a 1 data=y") {
		if err := p.tell(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
	}
	znode := func(path, data string, czxid, mzxid string, version int32, owner int64) Znode {
		return Znode{Path: path, Data: []byte(data), Stat: zk.StatPersisted{
			Czxid: zxidOf(czxid), Mzxid: zxidOf(mzxid), Pzxid: zxidOf(czxid), Version: version, EphemeralOwner: owner,
		}}
	}
	good := []Znode{
		{Path: "/", ACL: zk.OpenACL()}, {Path: "/zookeeper/whatever"},
		znode("/a", "y", "1.2", "1.5", 1, 0), znode("/a/e", "", "1.3", "1.3", 0, 1), znode("/c", "", "1.4", "1.4", 0, zk.ContainerOwner),
	}
	good[2].Stat.Cversion, good[2].Stat.Pzxid = 1, zxidOf("1.3")
	for _, c := range []struct {
		name, want string
		change     func(z []Znode) []Znode
	}{
		{"as it is", "", func(z []Znode) []Znode { return z }},
		{"one is missing", "should have 4", func(z []Znode) []Znode { return z[:4] }},
		{"one too many", "not there", func(z []Znode) []Znode { return append(z, znode("/x", "", "1.2", "1.2", 0, 0)) }},
		{"other data", "other data", func(z []Znode) []Znode { z[2].Data = []byte("x"); return z }},
		{"another version", "version", func(z []Znode) []Znode { z[2].Stat.Version = 2; return z }},
		{"an older life", "made at", func(z []Znode) []Znode { z[2].Stat.Czxid = zxidOf("1.1"); return z }},
		{"nobody's", "owner", func(z []Znode) []Znode { z[3].Stat.EphemeralOwner = 0; return z }},
		{"no container", "owner", func(z []Znode) []Znode { z[4].Stat.EphemeralOwner = 0; return z }},
		{"another number of children", "2 children created", func(z []Znode) []Znode { z[2].Stat.Cversion = 2; return z }},
		{"an old pzxid", "last change by 1.2", func(z []Znode) []Znode { z[2].Stat.Pzxid = zxidOf("1.2"); return z }},
		{"another time", "set at 5", func(z []Znode) []Znode { z[2].Stat.Mtime = 5; return z }},
		{"another ACL", "ACL", func(z []Znode) []Znode { z[2].ACL = zk.OpenACL(); return z }},
	} {
		err := p.model.Whole(slices.Values(c.change(slices.Clone(good))))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
