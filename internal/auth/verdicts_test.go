package auth

import (
	"fmt"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// longList has its last entry let an address do something.
func longList(perm zk.Perms, address string) []zk.ACL {
	var list []zk.ACL
	for i := range 2 * entriesShort {
		list = append(list, entry(zk.PermAll, "ip", fmt.Sprint("10.1.1.", i)))
	}
	return append(list, entry(perm, "ip", address))
}

func TestLongListIsGoneThroughOnce(t *testing.T) {
	v := Verdicts{Rules: &Rules{}}
	list, me := longList(zk.PermWrite, "10.0.0.1"), Connected("10.0.0.1")
	if !v.Allow(list, zk.PermWrite, me) {
		t.Fatal("kept out")
	}
	list[len(list)-1].Perms = 0 // who looks again sees it
	if !v.Allow(list, zk.PermWrite, me) {
		t.Error("the list was gone through again")
	}
	if v.Allow(list, zk.PermRead, me) || v.Allow(list, zk.PermWrite, Connected("10.0.0.1")) || v.Allow(slices.Clone(list), zk.PermWrite, me) {
		t.Error("the verdict was taken for another question")
	}
	more := append(slices.Clone(me), zk.Identity{Scheme: "ip", ID: "10.1.1.3"})
	if v.Allow(list, zk.PermWrite, more[:1]) || !v.Allow(list, zk.PermWrite, more) {
		t.Error("identities that came to the others do not count")
	}
	for range 3 * verdictsMax {
		v.Allow(slices.Clone(list), zk.PermWrite, me)
	}
	if len(v.known) > verdictsMax {
		t.Errorf("%d verdicts are kept", len(v.known))
	}
}
