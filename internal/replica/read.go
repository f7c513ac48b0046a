package replica

import (
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/session"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/internal/watch"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
	"strings"
)

// Reader answers what needs no transaction. Connections use it from their own goroutines, each
// with the tree locked for reading, so reads scale with cores. A watch is set under the same
// lock as the read that sets it, so no change is lost between the read and the watch.
type Reader struct {
	Tree    *tree.Tree
	Watches *watch.Table
	Auth    *auth.Rules
	Domains *Domains // nil without auth.Groups; the lock of the tree guards it
	Run     string   // identifies this run of the server: cursors of another run are refused
}

// Caller is the client for which a read is done.
type Caller struct {
	Conn       session.ConnID
	Session    zk.SessionID
	Identities []zk.Identity
}

// Answer is the result of a read: events to be sent before the reply (setWatches), and the
// reply. Its slices alias the tree.
type Answer struct {
	Code   zk.Code
	Result zk.Result
	Events []zk.Event
}

// Lacks reports whether the request was a list of watches some of which were refused.
func (a *Answer) Lacks() bool {
	return a.Code == zk.ErrThrottledOp && (a.Result.Op == zk.OpSetWatches || a.Result.Op == zk.OpSetWatches2)
}

// Header returns the reply header of an answer to req at zxid.
func (a *Answer) Header(req *zk.Request, zxid zk.Zxid) wire.ReplyHeader {
	if req.Op == zk.OpAuth || req.Op == zk.OpSASL {
		zxid = 0
	}
	return wire.ReplyHeader{Xid: req.Xid, Zxid: zxid, Code: a.Code}
}

// Weight returns roughly how many bytes it takes to make the reply. See Reader.Weight.
func (a *Answer) Weight() int {
	res := &a.Result
	weight := len(res.Data) + nameWeight*(len(res.Children)+len(res.ACL))
	for _, name := range res.Children {
		weight += len(name)
	}
	for i := range res.ACL {
		weight += len(res.ACL[i].Scheme) + len(res.ACL[i].ID)
	}
	return weight
}

// Read answers req into a. The former content of a is lost, but the memory of its slices is
// used again. The tree is locked for reading, or its owner calls.
func (v *Reader) Read(req *zk.Request, who Caller, a *Answer) {
	children := a.Result.Children[:0]
	*a = Answer{Result: zk.Result{Op: req.Op, Children: children}, Events: a.Events[:0]}
	a.Code = v.read(req, who, a)
}

func (v *Reader) read(req *zk.Request, who Caller, a *Answer) zk.Code {
	switch req.Op {
	case zk.OpExists:
		return v.exists(req, who, &a.Result)
	case zk.OpGetData, zk.OpGetChildren, zk.OpGetChildren2, zk.OpGetAllChildrenNumber:
		return v.get(req, who, &a.Result)
	case zk.OpGetACL:
		return v.getACL(req, who, &a.Result)
	case zk.OpGetChildrenPage:
		return v.page(req, who, &a.Result)
	case zk.OpMultiRead:
		return v.multiRead(req, who, &a.Result)
	case zk.OpGetEphemerals:
		a.Result.Children = v.Tree.Ephemerals(who.Session, ephemeralPrefix(req.Path))
	case zk.OpSync:
		a.Result.Path = req.Path
	case zk.OpWhoAmI:
		a.Result.Who = v.whoAmI(who)
	case zk.OpAddWatch:
		if req.Watches != zk.WatchPersistent && req.Watches != zk.WatchPersistentRecursive {
			return zk.ErrMarshalling
		}
		if !v.Watches.AddMode(who.Conn, req.Watches, req.Path) {
			return zk.ErrThrottledOp
		}
	case zk.OpCheckWatches, zk.OpRemoveWatches:
		return v.watches(req, who)
	case zk.OpSetWatches, zk.OpSetWatches2:
		var all bool
		if a.Events, all = v.setWatches(req.SetWatches, who, a.Events); !all {
			return zk.ErrThrottledOp
		}
	case zk.OpSASL:
		a.Result.Data = req.Data // the connection has stored the answer there
	}
	return zk.OK // ping and auth need nothing more here
}

// LongAnswer is the weight from which an answer counts as long.
const LongAnswer = 16 << 10

// nameWeight is the weight of a name, or of an ACL entry, in an answer, in addition to its
// bytes.
const nameWeight = 128

// Weight returns roughly how many bytes it takes to make an answer to req, with the tree as it
// is now: it only looks up the znode. The tree is locked for reading, or its owner calls.
func (v *Reader) Weight(req *zk.Request, session zk.SessionID) int {
	switch req.Op {
	case zk.OpGetEphemerals:
		return nameWeight*v.Tree.EphemeralsOf(session) + int(v.Tree.EphemeralBytes(session))
	case zk.OpMultiRead:
		weight := 0
		for i := range req.Ops {
			weight += v.Weight(&req.Ops[i], session)
		}
		return min(weight, multiReadBytesMax)
	case zk.OpGetData, zk.OpGetChildren, zk.OpGetChildren2, zk.OpGetACL, zk.OpGetChildrenPage:
	default:
		return 0
	}
	n, found := v.Tree.Find(req.Path)
	switch {
	case !found:
		return 0
	case req.Op == zk.OpGetData:
		return len(n.Data())
	case req.Op == zk.OpGetACL:
		list := n.ACL()
		return nameWeight*list.Len() + list.Bytes()
	}
	weight := nameWeight*n.NumChildren() + int(n.NamesBytes())
	if req.Op == zk.OpGetChildrenPage {
		return min(weight, nameWeight*pageNames(req)+pageBytes)
	}
	return weight
}

// exists sets its watch on a missing znode too: the watch then waits for the creation.
func (v *Reader) exists(req *zk.Request, who Caller, res *zk.Result) zk.Code {
	for i := range len(req.Path) {
		if req.Path[i] == 0 {
			return zk.ErrBadArguments
		}
	}
	n, ok := v.Tree.Find(req.Path)
	if ok && !v.Auth.Allow(n.ACL(), zk.PermRead, who.Identities) {
		return zk.ErrNoAuth
	}
	if req.Watch && !v.Watches.Add(who.Conn, watch.Data, req.Path) {
		return zk.ErrThrottledOp
	}
	if !ok {
		return zk.ErrNoNode
	}
	res.Stat = n.Stat()
	return zk.OK
}

// readable finds a znode that must exist and that the caller may read.
func (v *Reader) readable(req *zk.Request, who Caller) (tree.Node, zk.Code) {
	n, ok := v.Tree.Find(req.Path)
	if !ok {
		return n, zk.ErrNoNode
	}
	if !v.Auth.Allow(n.ACL(), zk.PermRead, who.Identities) {
		return n, zk.ErrNoAuth
	}
	return n, zk.OK
}

// get serves requests that need READ on a znode that exists.
func (v *Reader) get(req *zk.Request, who Caller, res *zk.Result) zk.Code {
	n, code := v.readable(req, who)
	if code != zk.OK {
		return code
	}
	registry := watch.Child
	if req.Op == zk.OpGetData {
		registry = watch.Data
	}
	if req.Watch && !v.Watches.Add(who.Conn, registry, req.Path) {
		return zk.ErrThrottledOp
	}
	switch req.Op {
	case zk.OpGetData:
		res.Data, res.Stat = n.Data(), n.Stat()
	case zk.OpGetAllChildrenNumber:
		res.Count = int32(n.Descendants())
	default:
		res.Children, res.Stat = n.Children(res.Children), n.Stat()
	}
	return zk.OK
}

// getACL hides the hashes in an ACL from clients that may not change it.
func (v *Reader) getACL(req *zk.Request, who Caller, res *zk.Result) zk.Code {
	n, ok := v.Tree.Find(req.Path)
	if !ok {
		return zk.ErrNoNode
	}
	list := n.ACL()
	if !v.Auth.Allow(list, zk.PermRead|zk.PermAdmin, who.Identities) {
		return zk.ErrNoAuth
	}
	res.ACL = list.Entries()
	if !v.Auth.Allow(list, zk.PermAdmin, who.Identities) {
		res.ACL = auth.Mask(res.ACL)
	}
	res.Stat = n.Stat()
	return zk.OK
}

// multiReadBytesMax bounds the reply to a multiRead: a short request can ask for the same long
// znode some thousand times.
const multiReadBytesMax = 32 << 20

// multiRead answers each part by itself and sets no watch.
func (v *Reader) multiRead(req *zk.Request, who Caller, res *zk.Result) zk.Code {
	if len(req.Ops) == 0 {
		return zk.OK
	}
	res.Sub = make([]zk.Result, len(req.Ops))
	bytes := 0
	for i := range req.Ops {
		op := &req.Ops[i]
		op.Watch = false
		sub := &res.Sub[i]
		sub.Op = op.Op
		if code := v.get(op, who, sub); code != zk.OK {
			*sub = zk.Result{Op: zk.OpError, Code: code}
		}
		bytes += len(sub.Data)
		for _, name := range sub.Children {
			bytes += 4 + len(name)
		}
		if bytes > multiReadBytesMax {
			return zk.ErrMarshalling
		}
	}
	return zk.OK
}

// ephemeralPrefix treats a prefix that is blank, or only the root, as all paths. It trims as
// Java does, which removes every character up to and including the space.
func ephemeralPrefix(prefix string) string {
	trimmed := strings.TrimFunc(prefix, func(r rune) bool { return r <= ' ' })
	if trimmed == "" || trimmed == zk.RootPath {
		return zk.RootPath
	}
	return prefix
}

func (v *Reader) whoAmI(who Caller) []zk.Identity {
	out := make([]zk.Identity, len(who.Identities))
	for i, id := range who.Identities {
		out[i] = zk.Identity{Scheme: id.Scheme, ID: v.Auth.User(id)}
	}
	return out
}

func (v *Reader) watches(req *zk.Request, who Caller) zk.Code {
	if !req.Watcher.Valid() {
		return zk.ErrMarshalling
	}
	found := false
	if req.Op == zk.OpRemoveWatches {
		found = v.Watches.Remove(who.Conn, req.Watcher, req.Path)
	} else {
		found = v.Watches.Has(who.Conn, req.Watcher, req.Path)
	}
	if !found {
		return zk.ErrNoWatcher
	}
	return zk.OK
}

// setWatches sets the watches again that a client had on its former connection. What has
// changed since becomes an event at once, with zxid -1. It returns false if that is more
// watches than allowed: the client does not look at the answer, so its connection must end.
func (v *Reader) setWatches(w *zk.SetWatches, who Caller, events []zk.Event) ([]zk.Event, bool) {
	all := true
	set := func(r watch.Registry, path string) { all = all && v.Watches.Add(who.Conn, r, path) }
	tell := func(kind zk.EventType, path string) {
		events = append(events, zk.Event{Type: kind, State: zk.StateSyncConnected, Path: path, Zxid: zk.NoZxid})
	}
	for _, path := range w.Data {
		n, ok := v.Tree.Find(path)
		switch {
		case !ok:
			tell(zk.EventNodeDeleted, path)
		case n.Stat().Mzxid > w.RelativeZxid:
			tell(zk.EventNodeDataChanged, path)
		default:
			set(watch.Data, path)
		}
	}
	for _, path := range w.Exist {
		if _, ok := v.Tree.Find(path); ok {
			tell(zk.EventNodeCreated, path)
		} else {
			set(watch.Data, path)
		}
	}
	for _, path := range w.Child {
		n, ok := v.Tree.Find(path)
		switch {
		case !ok:
			tell(zk.EventNodeDeleted, path)
		case n.Stat().Pzxid > w.RelativeZxid:
			tell(zk.EventNodeChildrenChanged, path)
		default:
			set(watch.Child, path)
		}
	}
	for _, path := range w.Persistent {
		all = all && v.Watches.AddMode(who.Conn, zk.WatchPersistent, path)
	}
	for _, path := range w.Recursive {
		all = all && v.Watches.AddMode(who.Conn, zk.WatchPersistentRecursive, path)
	}
	return events, all
}
