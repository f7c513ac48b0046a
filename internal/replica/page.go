package replica

import (
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// Bounds of a page of children.
const (
	pageNamesMax = 10_000
	pageBytes    = 256 << 10 // bytes of names: the name that reaches it is the last
	cursorNames  = 4         // names in a cursor: any of them that still exists is enough to continue
)

// pageNames returns the maximum number of names in an answer to req.
func pageNames(req *zk.Request) int { return min(max(0, int(req.Version)), pageNamesMax) }

// page lists the children of a znode that come after a cursor, and returns the next cursor, nil
// at the end. A cursor is valid only on the server that returned it, until that server restarts
// or takes over the tree of another one: each server has its own order of children.
func (v *Reader) page(req *zk.Request, who Caller, res *zk.Result) zk.Code {
	if req.Version <= 0 {
		return zk.ErrBadArguments
	}
	n, code := v.readable(req, who)
	if code != zk.OK {
		return code
	}
	run := v.Run + "." + strconv.Itoa(v.Tree.Replaced())
	after, ok := following(n, run, string(req.Data))
	if !ok {
		return zk.ErrBadArguments
	}
	var more bool
	res.Children, more, _ = n.ChildrenAfter(after, res.Children, pageNames(req), pageBytes)
	res.Stat = n.Stat()
	if more {
		last := res.Children[max(0, len(res.Children)-cursorNames):]
		now := strconv.FormatInt(int64(v.Tree.LastZxid()), 10)
		res.Data = []byte(run + "/" + now + "/" + strings.Join(last, "/"))
	}
	return zk.OK
}

// following returns the child after which a cursor continues: the last one named in it that
// still exists. A child that was created again now comes before all others. It is "" for the
// start, and ok is false if the cursor is no longer usable.
func following(n tree.Node, run, cursor string) (after string, ok bool) {
	if cursor == "" {
		return "", true
	}
	of, rest, _ := strings.Cut(cursor, "/")
	made, list, _ := strings.Cut(rest, "/")
	zxid, err := strconv.ParseInt(made, 10, 64)
	if of != run || err != nil {
		return "", false
	}
	for range cursorNames { // from the last name on: a cursor may be long, and the tree is locked
		at := strings.LastIndexByte(list, '/')
		name := list[at+1:]
		if child, ok := n.Child(name); ok && child.Persisted().Czxid <= zk.Zxid(zxid) {
			return name, true
		}
		if at < 0 {
			break
		}
		list = list[:at]
	}
	return "", false
}
