package check

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// The session is 7, of server 1 in its first life. Its timeout is 1000 ms, and it was
// attached at 100 ms.
func TestLocalSessions(t *testing.T) {
	const id, timeoutMs = zk.SessionID(7), 1000
	attached := func(l *Local, server quorum.ID, life int) error {
		return l.Attached(id, server, life, timeoutMs, 100)
	}
	ephemeral := &zk.Request{Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpCreate, Mode: zk.Ephemeral}}}
	stepped := func(l *Local, nowMs int64, here bool) error {
		return l.Stepped(1, 1, nowMs, 30, true, func(zk.SessionID) bool { return here }, func(zk.SessionID) bool { return false })
	}
	for _, c := range []struct {
		title, wrong string
		upgrades     bool
		tell         func(*Local) error
	}{
		{"attached again", "", true, func(l *Local) error { return attached(l, 1, 1) }},
		{"attached by another", "L1", true, func(l *Local) error { return attached(l, 2, 1) }},
		{"attached by the next process", "L1", true, func(l *Local) error { return attached(l, 1, 2) }},
		{"upgraded", "", true, func(l *Local) error { l.Asked(id, ephemeral); return l.Opened(id) }},
		{"upgraded unasked", "L2", true, func(l *Local) error { return l.Opened(id) }},
		{"upgraded by servers that do not", "L2", false, func(l *Local) error { l.Asked(id, ephemeral); return l.Opened(id) }},
		{"ended too soon", "L3", true, func(l *Local) error { return stepped(l, 1099, false) }},
		{"ended while its upgrade is logged", "", true, func(l *Local) error { l.Logged(id); return stepped(l, 1099, false) }},
		{"ended with a role, while it is upgraded", "", true, func(l *Local) error { l.Asked(id, ephemeral); l.RoleEnded(1); return stepped(l, 1099, false) }},
		{"ended with a role, unasked", "L3", true, func(l *Local) error { l.RoleEnded(1); return stepped(l, 1099, false) }},
		{"ended with the role of another", "L3", true, func(l *Local) error { l.Asked(id, ephemeral); l.RoleEnded(2); return stepped(l, 1099, false) }},
		{"upgraded unasked, as it ended", "L2", true, func(l *Local) error { l.Logged(id); return errors.Join(stepped(l, 1099, false), l.Opened(id)) }},
		{"ended in time", "", true, func(l *Local) error { return stepped(l, 1100, false) }},
		{"not ended yet", "", true, func(l *Local) error { return stepped(l, 1130, true) }},
		{"not ended", "L3", true, func(l *Local) error { return stepped(l, 1131, true) }},
		{"received again", "", true, func(l *Local) error { l.Received(id, 900, true); return stepped(l, 1930, true) }},
		{"received again, and ended", "L3", true, func(l *Local) error { l.Received(id, 900, true); return stepped(l, 1899, false) }},
		{"perhaps received, and ended", "", true, func(l *Local) error { l.Received(id, 900, false); return stepped(l, 1100, false) }},
		{"perhaps received, and not ended", "", true, func(l *Local) error { l.Received(id, 900, false); return stepped(l, 1930, true) }},
		{"closed by its client", "", true, func(l *Local) error { l.Closed(id); return stepped(l, 200, false) }},
		{"of a process that is gone", "", true, func(l *Local) error { l.Gone(1); return stepped(l, 200, false) }},
		{"refused an ephemeral", "", false, func(l *Local) error { return l.Refused(id) }},
		{"refused what could be", "L4", true, func(l *Local) error { return l.Refused(id) }},
	} {
		l := NewLocal(c.upgrades)
		if err := attached(l, 1, 1); err != nil || !l.Has(id) || !l.Had(id) || l.Left(nil) != id || l.Left(map[zk.SessionID]bool{id: true}) != 0 {
			t.Fatalf("%v, and it is not known", err)
		}
		err := c.tell(l)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", c.title, err, c.wrong)
		}
	}
}

// A partitioned server shows 1.1 and 1.2, the second of which may turn out to be
// nothing.
func TestAnswersOfWhoIsPartitioned(t *testing.T) {
	created := func(path string) *zk.Txn { return &zk.Txn{Op: zk.OpCreate, Path: path, ACL: zk.OpenACL()} }
	get := &zk.Request{Op: zk.OpExists, Path: "/b"}
	none := zk.Result{}
	for _, c := range []struct {
		title, wrong string
		tell         func(*ReadOnly, *Model, *Order) error
	}{
		{"a write refused", "", func(r *ReadOnly, _ *Model, _ *Order) error {
			return r.Refused(false, &zk.Request{Op: zk.OpDelete}, zk.ErrNotReadOnly)
		}},
		{"a write done", "C1", func(r *ReadOnly, _ *Model, _ *Order) error {
			return r.Refused(false, &zk.Request{Op: zk.OpDelete}, zk.OK)
		}},
		{"a sync done", "C1", func(r *ReadOnly, _ *Model, _ *Order) error { return r.Refused(true, &zk.Request{Op: zk.OpSync}, zk.OK) }},
		{"a session of its own", "", func(r *ReadOnly, _ *Model, _ *Order) error {
			return r.Refused(true, &zk.Request{Op: zk.OpCloseSession}, zk.OK)
		}},
		{"a session of all", "C1", func(r *ReadOnly, _ *Model, _ *Order) error {
			return r.Refused(false, &zk.Request{Op: zk.OpCloseSession}, zk.OK)
		}},
		{"what was shown", "", func(r *ReadOnly, _ *Model, _ *Order) error {
			return r.Read(&Asker{}, get, zxidOf("1.1"), zk.ErrNoNode, &none)
		}},
		{"what was not there", "read", func(r *ReadOnly, _ *Model, _ *Order) error {
			return r.Read(&Asker{}, get, zxidOf("1.1"), zk.OK, &none)
		}},
		{"what may come", "", func(r *ReadOnly, _ *Model, _ *Order) error {
			return r.Read(&Asker{}, get, zxidOf("1.2"), zk.ErrNoNode, &none)
		}},
		{"what came otherwise", "read", func(r *ReadOnly, m *Model, o *Order) error {
			if err := r.Read(&Asker{}, get, zxidOf("1.2"), zk.ErrNoNode, &none); err != nil {
				return nil
			}
			if err := m.Apply(&zk.TxnHeader{Zxid: zxidOf("1.2")}, created("/b")); err != nil {
				return nil
			}
			return r.Shown(zxidOf("1.2"))
		}},
		{"what was given up", "", func(r *ReadOnly, m *Model, o *Order) error {
			o.shown = append(o.shown, zxidOf("2.1"))
			if err := m.Apply(&zk.TxnHeader{Zxid: zxidOf("2.1")}, created("/b")); err != nil {
				return err
			}
			return r.Read(&Asker{}, get, zxidOf("1.2"), zk.OK, &none)
		}},
	} {
		m, o := NewModel(), NewOrder(nil)
		o.shown = []zk.Zxid{zxidOf("1.1")}
		if err := m.Apply(&zk.TxnHeader{Zxid: zxidOf("1.1")}, created("/a")); err != nil {
			t.Fatal(err)
		}
		err := c.tell(NewReadOnly(m, o), m, o)
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %q", c.title, err, c.wrong)
		}
	}
}
