package replica

import (
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/zk"
)

// onIdentities takes what the certificate of a connection proves now that the map of domains
// has changed. What it asks for brings its identities along; what it is told of rests on this.
func (r *Replica) onIdentities(e *Event) {
	if c := r.requests.conns[e.Conn]; c != nil {
		c.identities = e.Identities
	}
}

// noteMap notes that a transaction changes the map, or who may change it. The map is read
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

// Domains is the map of domains as the tree has it: see auth.Groups. It is replaced, never
// changed.
type Domains struct {
	Of   map[string][]string // the domains that an id is in, in order
	Open []string            // paths whose children are left out: everybody may change them
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
		for i := range names { // those of the tree move, and nobody looks at a map with it locked
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
