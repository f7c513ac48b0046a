package check

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// history is a test case with one fact on each line. Only the last fact is wrong, for a reason that
// contains want. If want is empty, no fact is wrong.
type history struct {
	name, facts, want string
}

// play tells the facts of each case to new checkers.
func play(t *testing.T, cases []history) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newPlayer()
			lines := strings.Split(strings.TrimSpace(c.facts), "\n")
			for i, line := range lines {
				err := p.tell(strings.Fields(line))
				switch last := i == len(lines)-1; {
				case err == nil && (!last || c.want == ""):
				case err == nil:
					t.Fatalf("%q is accepted, should be refused: %s", line, c.want)
				case !last || c.want == "":
					t.Fatalf("%q is refused: %v", line, err)
				case !strings.Contains(err.Error(), c.want):
					t.Fatalf("%q is refused with %q, should contain %q", line, err, c.want)
				}
			}
		})
	}
}

// player holds one checker of each kind.
type player struct {
	who         Asker
	order       *Order
	digests     *Digests
	model       *Model
	kept        *Kept
	asked       *Asked
	session     Session
	uncommitted zk.Zxid // the only zxid that was never committed
	recent      Recent
	watches     *Watches
	sequences   *Sequences
	expiry      *Expiry
}

func newPlayer() *player {
	m := NewModel()
	p := &player{
		who:   Asker{Session: 1},
		order: NewOrder(quorum.NewMajority(1, 2, 3)), digests: NewDigests(), model: m, kept: NewKept(), asked: NewAsked(),
		sequences: NewSequences(), expiry: NewExpiry(),
	}
	p.watches = NewWatches(m, &p.who)
	p.session = NewSession(p.shownBetween)
	return p
}

func integer(text string) int64 {
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// zxidOf reads a zxid such as 1.4; - means that nothing is said about it.
func zxidOf(text string) zk.Zxid {
	if text == "-" {
		return zk.NoZxid
	}
	epoch, counter, _ := strings.Cut(text, ".")
	return zk.MakeZxid(uint32(integer(epoch)), uint32(integer(counter)))
}

var codes = map[string]zk.Code{
	"ok": zk.OK, "nonode": zk.ErrNoNode, "exists": zk.ErrNodeExists, "refused": zk.ErrBadVersion, "notempty": zk.ErrNotEmpty,
	"noauth": zk.ErrNoAuth, "quota": zk.ErrQuotaExceeded,
	"ephemeral": zk.ErrNoChildrenForEphemerals, "loss": zk.ErrConnectionLoss,
}

// codeOf panics on a name that no code has, so that no case means ok by mistake.
func codeOf(name string) zk.Code {
	code, known := codes[name]
	if !known {
		panic(name)
	}
	return code
}

var eventTypes = map[string]zk.EventType{
	"created": zk.EventNodeCreated, "deleted": zk.EventNodeDeleted, "changed": zk.EventNodeDataChanged, "children": zk.EventNodeChildrenChanged,
}

// options returns the fields that contain an equals sign.
func options(fields []string) map[string]string {
	o := map[string]string{}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		o[key] = value
	}
	return o
}

func (p *player) tell(fields []string) error {
	switch verb, args := fields[0], fields[1:]; verb {
	case "append", "durable", "recover", "truncate", "copy", "leave", "damaged", "serve", "lead", "show", "equal", "reconfig", "inforce":
		return p.tellOrder(verb, args)
	case "txn":
		return p.tellTxn(zxidOf(args[0]), args[1:])
	case "made":
		h, t := transactionOf(zxidOf(args[0]), args[1:])
		return p.asked.Shown(&h, &t)
	case "asks":
		p.asked.Sent(1, requestOf(args))
		return nil
	case "not-applied":
		return p.asked.NotApplied(1, zk.Xid(integer(args[0])))
	case "read", "wrote":
		return p.tellReply(verb, args)
	case "is":
		p.who.Identities = []zk.Identity{{Scheme: "digest", ID: args[0]}}
		return nil
	case "newest":
		p.who.Floor = zxidOf(args[0])
		return nil
	case "answered":
		return p.model.Answered(1, zk.Xid(integer(args[0])), zxidOf(args[1]))
	case "usage":
		return p.model.Usage(args[0], integer(args[1]), integer(args[2]))
	case "overdue":
		if path := p.model.Overdue(integer(args[0])); path != "" {
			return broken("test", "%s is overdue", path)
		}
		return nil
	case "stays", "taken", "unwanted", "armed", "event", "reply", "rearming", "rearmed", "away", "unwatch":
		return p.tellWatch(verb, args)
	case "connected", "sent", "got", "ended", "uncommitted":
		return p.tellSession(verb, args)
	case "digest":
		return p.digests.Seen(quorum.ID(integer(args[0])), zxidOf(args[1]), zk.Digest{Version: 2, Value: uint64(integer(args[2]))})
	case "attached":
		return p.model.Attached(zk.SessionID(integer(args[0])), zxidOf(args[1]))
	case "owned":
		return p.model.Owned(zk.SessionID(integer(args[0])), args[1:])
	case "shown":
		p.recent.Shown(zxidOf(args[0]))
		return nil
	case "write":
		return p.recent.Wrote(zxidOf(args[0]), zxidOf(args[1]))
	case "synced":
		return p.recent.Read(zxidOf(args[0]), zxidOf(args[1]))
	case "named":
		return p.sequences.Created(args[0], zxidOf(args[1]), zxidOf(args[2]))
	case "leads", "alive", "maybe", "decided", "expired", "waits", "stepped", "opens", "opened", "closed":
		return p.tellExpiry(fields[0], args)
	}
	return p.tellKept(fields)
}

// tellOrder takes a server, and then what the verb needs.
func (p *player) tellOrder(verb string, args []string) error {
	id := quorum.ID(integer(args[0]))
	switch verb {
	case "append": // several zxids; an x means other content
		for _, field := range args[1:] {
			text, other := strings.CutSuffix(field, "x")
			hash := hashOf(text)
			if other {
				hash++
			}
			if err := p.order.Append(id, zxidOf(text), hash); err != nil {
				return err
			}
		}
	case "durable":
		p.order.Durable(id, zxidOf(args[1]))
	case "reconfig": // the server, the zxid, and the new participants
		var participants quorum.IDs
		for _, text := range args[2:] {
			participants.Add(quorum.ID(integer(text)))
		}
		p.order.Reconfigures(zxidOf(args[1]), strings.Join(args[2:], " "), quorum.NewMajority(participants...))
		return p.order.Append(id, zxidOf(args[1]), hashOf(args[1]))
	case "inforce":
		return p.order.InForce(id, zxidOf(args[1]), strings.Join(args[2:], " "))
	case "recover":
		return p.order.Recover(id, zxidOf(args[1]))
	case "truncate":
		return p.order.Truncate(id, zxidOf(args[1]))
	case "copy":
		history, err := p.order.History(quorum.ID(integer(args[1])), zxidOf(args[2]))
		if err == nil {
			p.order.Copy(id, history)
		}
		return err
	case "damaged":
		p.order.Damaged(id)
	case "leave":
		p.order.Leave(id)
	case "serve", "lead":
		_, err := p.order.Serve(id, uint32(integer(args[1])), verb == "lead", zxidOf(args[2]))
		return err
	case "show":
		_, err := p.order.Show(id, zxidOf(args[1]))
		return err
	case "equal":
		return p.order.Equal(1, 2, 3)
	}
	return nil
}

// listOf reads an ACL such as "alice:rw,bob:r"; all is everybody.
func listOf(text string) []zk.ACL {
	var list []zk.ACL
	for entry := range strings.SplitSeq(text, ",") {
		who, rights, _ := strings.Cut(entry, ":")
		if who == "" {
			continue
		}
		perms := zk.Perms(0)
		for i, letter := range "rwcda" {
			if strings.ContainsRune(rights, letter) {
				perms |= 1 << i
			}
		}
		id := zk.Identity{Scheme: "digest", ID: who}
		switch who {
		case "all":
			id = zk.Identity{Scheme: "world", ID: "anyone"}
		case "auth":
			id = zk.Identity{Scheme: "auth"}
		}
		list = append(list, zk.ACL{Perms: perms, Identity: id})
	}
	return list
}

// txnOf reads one of: create PATH [data=] [eph] [container] [ttl=] [acl=], delete PATH, reap PATH,
// set PATH VERSION [data=], acl PATH VERSION [acl=], open, close PATH..., error CODE.
func txnOf(fields []string) zk.Txn {
	o := options(fields)
	_, ephemeral := o["eph"]
	_, container := o["container"]
	path := ""
	if len(fields) > 1 {
		path = fields[1]
	}
	switch fields[0] {
	case "create":
		op := zk.OpCreate
		if container {
			op = zk.OpCreateContainer
		}
		t := zk.Txn{Op: op, Path: path, Data: []byte(o["data"]), Ephemeral: ephemeral, ACL: listOf(o["acl"])}
		if text, given := o["ttl"]; given {
			t.Op, t.TTL = zk.OpCreateTTL, integer(text)
		}
		return t
	case "reap":
		return zk.Txn{Op: zk.OpDeleteContainer, Path: path}
	case "delete":
		return zk.Txn{Op: zk.OpDelete, Path: path}
	case "set":
		return zk.Txn{Op: zk.OpSetData, Path: path, Version: int32(integer(fields[2])), Data: []byte(o["data"])}
	case "acl":
		return zk.Txn{Op: zk.OpSetACL, Path: path, Version: int32(integer(fields[2])), ACL: listOf(o["acl"])}
	case "open":
		return zk.Txn{Op: zk.OpCreateSession, TimeoutMs: 1000}
	case "close":
		t := zk.Txn{Op: zk.OpCloseSession, HasPaths: true}
		for _, field := range fields[1:] {
			if strings.HasPrefix(field, "/") {
				t.Paths = append(t.Paths, field)
			}
		}
		return t
	case "error":
		return zk.Txn{Op: zk.OpError, Code: codeOf(fields[1])}
	}
	panic(fmt.Sprintf("no transaction: %q", fields))
}

// tellTxn takes ZXID TXN [; TXN ...] [session=] [xid=].
func (p *player) tellTxn(zxid zk.Zxid, fields []string) error {
	h, t := transactionOf(zxid, fields)
	return p.model.Apply(&h, &t)
}

// requestOf reads XID and then what txnOf reads, as a request.
func requestOf(fields []string) *zk.Request {
	var all []zk.Request
	for _, part := range strings.Split(strings.Join(fields[1:], " "), " ; ") {
		t := txnOf(strings.Fields(part))
		r := zk.Request{Op: t.Op, Path: t.Path, TTL: t.TTL, Data: t.Data, Xid: zk.Xid(integer(fields[0]))}
		switch {
		case t.Ephemeral:
			r.Mode = zk.Ephemeral
		case strings.Contains(part, "numbered"):
			r.Mode = zk.PersistentSequential
		}
		all = append(all, r)
	}
	if len(all) == 1 {
		return &all[0]
	}
	return &zk.Request{Op: zk.OpMulti, Ops: all, Xid: all[0].Xid}
}

func transactionOf(zxid zk.Zxid, fields []string) (zk.TxnHeader, zk.Txn) {
	o := options(fields)
	h := zk.TxnHeader{Zxid: zxid, Session: 1}
	if text, given := o["session"]; given {
		h.Session = zk.SessionID(integer(text))
	}
	if text, given := o["at"]; given {
		h.Time = integer(text)
	}
	if text, given := o["xid"]; given {
		h.Cxid = zk.Xid(integer(text))
	}
	parts := strings.Split(strings.Join(fields, " "), " ; ")
	if len(parts) == 1 {
		return h, txnOf(fields)
	}
	t := zk.Txn{Op: zk.OpMulti}
	for _, part := range parts {
		t.Sub = append(t.Sub, txnOf(strings.Fields(part)))
	}
	return h, t
}

// tellReply takes read OP PATH ZXID CODE ..., or wrote OP PATH ZXID CODE ....
func (p *player) tellReply(verb string, args []string) error {
	o := options(args)
	zxid, code := zxidOf(args[2]), codeOf(args[3])
	number := func(key string, otherwise int64) int64 {
		if text, given := o[key]; given {
			return integer(text)
		}
		return otherwise
	}
	req := zk.Request{ACL: listOf(o["list"]), Path: args[1], Data: []byte(o["data"]), Version: int32(number("v", -1)), Xid: zk.Xid(number("xid", 0))}
	res := zk.Result{ACL: listOf(o["list"]), Path: args[1], Data: []byte(o["data"])}
	res.Stat = zk.Stat{
		Version: int32(number("version", 0)), NumChildren: int32(number("count", 0)), DataLength: int32(len(o["data"])),
		EphemeralOwner: number("owner", 0), Aversion: int32(number("acl", 0)),
	}
	if text, given := o["c"]; given {
		res.Stat.Czxid, res.Stat.Mzxid = zxidOf(text), zxidOf(text)
	}
	if text, given := o["m"]; given {
		res.Stat.Mzxid = zxidOf(text)
	}
	node := p.model.at(req.Path)
	if n, known := node.numbersWhen(node.when(zxid), zxid); known {
		res.Stat.Pzxid, res.Stat.Cversion = n.pzxid, int32(number("changes", int64(n.changed)))
		res.Stat.Ctime, res.Stat.Mtime = number("ctime", n.ctimeMs), number("mtime", n.mtimeMs)
	}
	if text, given := o["p"]; given {
		res.Stat.Pzxid = zxidOf(text)
	}
	if o["names"] != "" {
		res.Children = strings.Split(o["names"], ",")
		res.Stat.NumChildren = int32(len(res.Children))
	}
	if made, given := o["made"]; given {
		res.Path, req.Mode = made, zk.PersistentSequential
	}
	if _, ephemeral := o["eph"]; ephemeral {
		req.Mode = zk.Ephemeral
	}
	req.Op = map[string]zk.Op{
		"get": zk.OpGetData, "exists": zk.OpExists, "children": zk.OpGetChildren2, "create": zk.OpCreate, "set": zk.OpSetData,
		"delete": zk.OpDelete, "check": zk.OpCheck, "multi": zk.OpMulti, "setacl": zk.OpSetACL, "list": zk.OpGetACL,
	}[args[0]]
	if verb == "read" {
		return p.model.Read(&p.who, &req, zxid, code, &res)
	}
	if req.Op == zk.OpMulti { // creates of the paths, and deletes of the paths after a dash
		for _, path := range strings.Split(args[1], ",") {
			op := zk.OpCreate
			if path, _ = strings.CutPrefix(path, "-"); strings.Contains(args[1], "-"+path+",") && len(req.Ops) == 0 {
				op = zk.OpDelete
			}
			req.Ops = append(req.Ops, zk.Request{Op: op, Path: path, Version: -1})
			sub := zk.Result{Op: op, Path: path}
			if _, failed := o["failed"]; failed {
				sub = zk.Result{Op: zk.OpError, Code: zk.ErrRuntimeInconsistency}
			}
			res.Sub = append(res.Sub, sub)
		}
	}
	return p.model.Wrote(&p.who, &req, zxid, code, &res)
}

// tellWatch takes one of: armed data|missing|child PATH ZXID, event TYPE PATH ZXID, reply ZXID,
// away, rearming data|missing|child=PATH,..., rearmed ZXID.
func (p *player) tellWatch(verb string, args []string) error {
	switch verb {
	case "stays":
		mode := zk.WatchPersistent
		if args[0] == "below" {
			mode = zk.WatchPersistentRecursive
		}
		p.watches.Added(args[1], mode, zxidOf(args[2]))
	case "unwanted":
		p.watches.Unwanted(args[0], zk.WatchPersistent)
	case "taken":
		p.watches.TakenOff(args[0], zk.WatcherAny)
	case "armed":
		p.watches.Armed(args[1], args[0] == "child", args[0] == "missing", zxidOf(args[2]))
	case "event":
		return p.watches.Event(&zk.Event{Type: eventTypes[args[0]], Path: args[1], Zxid: zxidOf(args[2])})
	case "reply":
		return p.watches.Replied(zxidOf(args[0]))
	case "away":
		p.watches.Connected(false)
	case "rearming":
		o := options(args)
		list := func(key string) []string {
			if o[key] == "" {
				return nil
			}
			return strings.Split(o[key], ",")
		}
		p.watches.Rearming(&zk.SetWatches{
			Data: list("data"), Exist: list("missing"), Child: list("child"), Persistent: list("stays"), Recursive: list("below"),
		})
	case "rearmed":
		return p.watches.Rearmed(zxidOf(args[0]))
	case "unwatch":
		p.watches.Removed(args[1], args[0] == "child")
	}
	return nil
}

func (p *player) tellSession(verb string, args []string) error {
	switch verb {
	case "connected":
		return p.session.Connected(quorum.ID(integer(args[0])), zk.SessionID(integer(args[1])), false)
	case "sent":
		p.session.Sent(zk.Xid(integer(args[0])))
	case "got":
		return p.session.Replied(zk.Xid(integer(args[0])), zxidOf(args[1]))
	case "ended":
		p.session.Ended()
	case "uncommitted":
		p.uncommitted = zxidOf(args[0])
	}
	return nil
}

// tellExpiry takes leader, session and times, except that opened and closed take only the session.
// Other forms are: expired LEADER SESSION TIMEOUT AT [RECEIVED]; waits LEADER SESSION TIMEOUT CAME;
// stepped LEADER AT SLACK.
func (p *player) tellExpiry(verb string, args []string) error {
	n := make([]int64, 5)
	for i := range args {
		n[i] = integer(args[i])
	}
	leader, session := quorum.ID(n[0]), zk.SessionID(n[1])
	switch verb {
	case "leads":
		p.expiry.Leads(leader, n[1])
	case "alive":
		p.expiry.Alive(leader, session, n[2])
	case "maybe":
		p.expiry.MaybeAlive(leader, session, n[2])
	case "opens":
		p.expiry.Opens(leader, session, n[2])
	case "decided":
		p.expiry.Ended(leader, session)
	case "opened":
		p.expiry.Opened(zk.SessionID(n[0]), n[1])
	case "closed":
		p.expiry.Closed(zk.SessionID(n[0]))
	case "stepped":
		return p.expiry.Stepped(leader, n[1], n[2])
	case "waits":
		return p.expiry.Waits(leader, session, n[2], n[3])
	case "expired":
		return p.expiry.Expired(leader, session, n[2], n[3], n[4])
	}
	return nil
}

func (p *player) tellKept(fields []string) error {
	switch fields[0] {
	case "creating":
		p.kept.Creating(fields[1])
	case "created":
		p.kept.Created(fields[1])
	case "not-created":
		p.kept.NotCreated(fields[1])
	case "deleting":
		p.kept.Deleting(fields[1])
	case "deleted":
		p.kept.Deleted(fields[1])
	case "not-deleted":
		p.kept.NotDeleted(fields[1])
	case "final":
		return p.kept.Final(fields[1:])
	default:
		panic(fields[0])
	}
	return nil
}

// shownBetween reports whether anything but the uncommitted zxid lies above the first zxid, up to
// the second one, which is of the same epoch.
func (p *player) shownBetween(after, upTo zk.Zxid) bool {
	for zxid := after + 1; zxid <= upTo; zxid++ {
		if zxid != p.uncommitted {
			return true
		}
	}
	return false
}
