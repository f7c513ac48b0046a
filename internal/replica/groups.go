package replica

import (
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/zk"
)

// onIdentities updates what the certificate of a connection proves after the map of domains has
// changed. Requests carry their own identities; which events a connection may receive depends
// on these.
func (r *Replica) onIdentities(e *Event) {
	if c := r.requests.conns[e.Conn]; c != nil {
		c.identities = e.Identities
	}
}

// noteMap records that a transaction changes the map, or who may change it. The map is read
// again before readers are let in, once for all transactions of the step.
func (r *Replica) noteMap(t *zk.Txn) {
	if !r.opts.Auth.Groups.On {
		return
	}
	r.remap = r.remap || ofMap(t.Path) || slices.ContainsFunc(t.Paths, ofMap)
	for i := range t.Sub {
		r.noteMap(&t.Sub[i])
	}
}

func ofMap(path string) bool {
	return path == auth.MapPath || strings.HasPrefix(path, auth.MapPath+"/")
}

// readMap reads the map, with the tree locked.
func (r *Replica) readMap() {
	r.remap, r.effects.Remapped = false, true
	r.reader.Domains = domainsOf(&r.reader)
}

// Domains is the map of domains as it is in the tree: see auth.Groups. It is replaced, never
// changed.
type Domains struct {
	Of   map[string][]string // the domains of each id, in order
	Open []string            // paths whose children are ignored, because everybody may change them
}

func domainsOf(v *Reader) *Domains {
	d := &Domains{Of: map[string][]string{}}
	ids := func(path string) []string {
		n, ok := v.Tree.Find(path)
		switch {
		case !ok || n.NumChildren() == 0:
			return nil
		case !v.Auth.Guarded(n.ACL()):
			d.Open = append(d.Open, path)
			return nil
		}
		names := n.Children(nil)
		for i := range names { // copied, because names in the tree move, and the map is read without the lock
			names[i] = strings.Clone(names[i])
		}
		return names
	}
	for _, domain := range ids(auth.MapPath) {
		for _, id := range ids(auth.MapPath + "/" + domain) {
			d.Of[id] = append(d.Of[id], domain)
		}
	}
	for _, domains := range d.Of {
		slices.Sort(domains)
	}
	slices.Sort(d.Open)
	return d
}
