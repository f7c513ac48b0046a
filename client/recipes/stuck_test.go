package recipes

import (
	"errors"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// TestItemThatCannotBeTakenKeepsNoOtherFromBeingTaken puts three items before a good
// one: one that the taker may not read, one with a child, and one that is too long
// for it.
func TestItemThatCannotBeTakenKeepsNoOtherFromBeingTaken(t *testing.T) {
	addr := serve(t)
	c := dialed(t, addr, client.Options{ReplyBytesMax: 4096})
	putter := dialed(t, addr, client.Options{})
	secret := []zk.ACL{{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: "other:x"}}}
	for what, code := range map[string]error{
		"unreadable": zk.ErrNoAuth, "parent": zk.ErrNotEmpty, "long": client.ErrReplyTooLong,
	} {
		t.Run(what, func(t *testing.T) {
			dir := "/" + what
			var acl []zk.ACL
			item := []byte("bad")
			if what == "unreadable" {
				acl = secret
			}
			if what == "long" {
				item = make([]byte, 5000)
			}
			must(t, NewQueue(putter, dir, Options{}).Put(awaittest.Within(t), []byte("first")))
			bad, _, err := putter.Create(awaittest.Within(t), dir+"/item-", item,
				client.CreateOptions{Mode: zk.PersistentSequential, ACL: acl})
			must(t, err)
			if what == "parent" {
				_, _, err := putter.Create(awaittest.Within(t), bad+"/below", nil, client.CreateOptions{})
				must(t, err)
			}
			must(t, NewQueue(putter, dir, Options{}).Put(awaittest.Within(t), []byte("last")))
			taker := NewQueue(c, dir, Options{})
			for _, want := range []string{"first", "last"} {
				if item, err := taker.Take(awaittest.Within(t)); string(item) != want || err != nil {
					t.Fatalf("took %q, %v instead of %q", item, err, want)
				}
			}
			item, err = taker.Take(awaittest.Within(t))
			if item != nil || !errors.Is(err, code) || !strings.Contains(err.Error(), bad) {
				t.Errorf("took %q, %v of a queue in which nothing but %s is left", item, err, bad)
			}
		})
	}
}
