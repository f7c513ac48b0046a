package replica

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

var opsByName = namedOps()

func namedOps() map[string]zk.Op {
	out := map[string]zk.Op{}
	for op := zk.Op(-20); op < 200; op++ {
		out[op.String()] = op
	}
	return out
}

// request reads "request C OP [PATH] [DATA] [key=value ...]"; the operations of a multi are
// separated by semicolons.
func (s *script) request(f []string) {
	id := s.connID(f[1])
	c := s.conns[id]
	c.xid++
	e := Event{Kind: EventRequest, Conn: id, Identities: c.identities}
	r := &zk.Request{}
	_, known := opsByName[f[2]]
	switch {
	case f[2] == "op":
		r.Op = zk.Op(s.number(f[3]))
	case !known:
		s.t.Fatalf("unknown operation %q", f[2])
	default:
		r = ParseRequest(s.t, f[2:])
	}
	if f[0] == "undecodable" {
		e.Code = zk.ErrMarshalling
	}
	r.Xid, e.Request = c.xid, r
	s.add(e)
}

var scriptModes = map[string]zk.CreateMode{
	"ephemeral": zk.Ephemeral, "sequential": zk.PersistentSequential, "ephemeral-sequential": zk.EphemeralSequential,
	"container": zk.Container,
}

// ParseRequest reads "OP [PATH] [DATA] [key=value ...]", or a multi of such.
func ParseRequest(t *testing.T, f []string) *zk.Request {
	r := &zk.Request{Op: opsByName[f[0]], Version: -1, TTL: -1}
	if r.Op == zk.OpMulti || r.Op == zk.OpMultiRead {
		r = &zk.Request{Op: r.Op, Ops: []zk.Request{}}
		for part := range strings.SplitSeq(strings.Join(f[1:], " "), ";") {
			r.Ops = append(r.Ops, *ParseRequest(t, strings.Fields(part)))
		}
		return r
	}
	if r.Op.IsCreate() {
		r.ACL, r.Data = zk.OpenACL(), []byte{}
	}
	for _, arg := range f[1:] {
		key, value, pair := strings.Cut(arg, "=")
		mode, isMode := scriptModes[arg]
		switch {
		case isMode:
			r.Mode = mode
		case arg == "watch":
			r.Watch = true
		case pair:
			argument(t, r, key, value)
		case r.Path == "":
			r.Path = arg
		default:
			r.Data = []byte(arg)
		}
	}
	return r
}

func argument(t *testing.T, r *zk.Request, key, value string) {
	paths := func() []string { return strings.Split(value, ",") }
	if slices.Contains([]string{"since", "data", "exist", "child", "persistent", "recursive"}, key) && r.SetWatches == nil {
		r.SetWatches = &zk.SetWatches{}
	}
	switch key {
	case "version":
		r.Version = int32(number(t, value))
	case "ttl":
		r.TTL, r.Mode = number(t, value), zk.PersistentTTL
	case "mode":
		r.Watches = zk.WatchMode(number(t, value))
	case "type":
		r.Watcher = zk.WatcherType(number(t, value))
	case "acl":
		r.ACL = scriptACL(value)
	case "since":
		r.SetWatches.RelativeZxid = zk.Zxid(number(t, value))
	case "data":
		r.SetWatches.Data = paths()
	case "exist":
		r.SetWatches.Exist = paths()
	case "child":
		r.SetWatches.Child = paths()
	case "persistent":
		r.SetWatches.Persistent = paths()
	case "recursive":
		r.SetWatches.Recursive = paths()
	default:
		t.Fatalf("unknown argument %q", key)
	}
}

// scriptACL reads "open", "none", "auth", "read" or a digest credential.
func scriptACL(text string) []zk.ACL {
	switch text {
	case "open":
		return zk.OpenACL()
	case "none":
		return []zk.ACL{}
	case "auth":
		return zk.CreatorACL()
	case "read":
		return zk.ReadACL()
	}
	return []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: auth.Digest(text)}}}
}

// Connected implements Clients.
func (s *script) Connected(id session.ConnID, r *wire.ConnectResponse) {
	if r.Session == 0 {
		s.say("-> %d refused", id)
		return
	}
	s.say("-> %d connected %s timeout=%d", id, s.sessionName(r.Session), r.TimeoutMs)
	if r.Password != session.PasswordOf(r.Session) {
		s.t.Error("wrong password in the answer")
	}
}

// Reply implements Clients.
func (s *script) Reply(id session.ConnID, h wire.ReplyHeader, r *zk.Result) {
	body := ""
	if h.Code == zk.OK && r != nil {
		body = ResultText(r)
	}
	s.say("-> %d xid=%d zxid=%d %s%s", id, h.Xid, h.Zxid, h.Code.Error(), body)
}

// Reached implements Clients.
func (s *script) Reached(id session.ConnID) { s.say("-> %d reached", id) }

// Notify implements Clients.
func (s *script) Notify(conns []session.ConnID, e *zk.Event) {
	for _, id := range conns {
		s.say("-> %d event %s %s zxid=%d", id, e.Type, e.Path, e.Zxid)
	}
}

// Notified implements Clients.
func (s *script) Notified() {}

// Close implements Clients.
func (s *script) Close(id session.ConnID) { s.say("-> %d close", id) }

// ResultText is the body of a reply.
func ResultText(r *zk.Result) string {
	var b strings.Builder
	switch r.Op {
	case zk.OpCreate, zk.OpSync:
		fmt.Fprintf(&b, " path=%s", r.Path)
	case zk.OpCreate2, zk.OpCreateContainer, zk.OpCreateTTL:
		fmt.Fprintf(&b, " path=%s czxid=%d", r.Path, r.Stat.Czxid)
	case zk.OpExists, zk.OpSetData, zk.OpSetACL:
		fmt.Fprintf(&b, " version=%d cversion=%d aversion=%d", r.Stat.Version, r.Stat.Cversion, r.Stat.Aversion)
	case zk.OpGetData:
		fmt.Fprintf(&b, " data=%q version=%d", r.Data, r.Stat.Version)
	case zk.OpGetChildren, zk.OpGetChildren2, zk.OpGetEphemerals:
		children := slices.Clone(r.Children)
		slices.Sort(children)
		fmt.Fprintf(&b, " %v", children)
	case zk.OpWhoAmI:
		fmt.Fprintf(&b, " %v", r.Who)
	case zk.OpMulti, zk.OpMultiRead:
		for i := range r.Sub {
			sub := &r.Sub[i]
			if sub.Op == zk.OpError {
				fmt.Fprintf(&b, " [%s]", sub.Code.Error())
			} else {
				fmt.Fprintf(&b, " [%s%s]", sub.Op, ResultText(sub))
			}
		}
	}
	return b.String()
}

// TxnText is a transaction; name names a session.
func TxnText(name func(zk.SessionID) string, h *zk.TxnHeader, t *zk.Txn) string {
	switch t.Op {
	case zk.OpCreateSession:
		return fmt.Sprintf("createSession %s timeout=%d", name(h.Session), t.TimeoutMs)
	case zk.OpCloseSession:
		if !t.HasPaths {
			return fmt.Sprintf("closeSession %s", name(h.Session))
		}
		return fmt.Sprintf("closeSession %s %v", name(h.Session), t.Paths)
	case zk.OpError:
		return "error: " + t.Code.Error()
	case zk.OpMulti:
		var parts []string
		for i := range t.Sub {
			parts = append(parts, TxnText(name, h, &t.Sub[i]))
		}
		return "multi [" + strings.Join(parts, "] [") + "]"
	case zk.OpSetData, zk.OpSetACL, zk.OpCheck:
		return fmt.Sprintf("%s %s version=%d", t.Op, t.Path, t.Version)
	case zk.OpCreateTTL:
		return fmt.Sprintf("%s %s ttl=%d", t.Op, t.Path, t.TTL)
	}
	if t.Ephemeral {
		return fmt.Sprintf("%s %s ephemeral", t.Op, t.Path)
	}
	return fmt.Sprintf("%s %s", t.Op, t.Path)
}
