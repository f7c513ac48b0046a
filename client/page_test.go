package client

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// pages lists children in pages, and calls between after each.
func pages(t *testing.T, c *Client, path string, limit int, between func()) (all []string) {
	t.Helper()
	ctx := awaittest.Within(t)
	var cursor []byte
	for {
		page, err := c.ChildrenPage(ctx, path, cursor, limit)
		must(t, err)
		if len(page.Names) > limit {
			t.Fatalf("%d names, of %d at most", len(page.Names), limit)
		}
		all = append(all, page.Names...)
		if cursor = page.Next; cursor == nil {
			return all
		}
		between()
	}
}

func TestPagesListWhatIsThereAllTheTime(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	if all := pages(t, c, top, 5, func() {}); all != nil {
		t.Errorf("of an empty directory: %q", all)
	}
	create := func(name string) {
		_, _, err := c.Create(ctx, top+"/"+name, nil, CreateOptions{})
		must(t, err)
	}
	var want []string
	for i := range 100 {
		create(fmt.Sprintf("old-%d", i))
		want = append(want, fmt.Sprintf("old-%d", i))
	}
	slices.Sort(want)
	for _, limit := range []int{1, 7, 99, 100, 101, 10_000} {
		if all := slices.Sorted(slices.Values(pages(t, c, top, limit, func() {}))); !slices.Equal(all, want) {
			t.Errorf("by %d: %q", limit, all)
		}
	}
	// Between two pages other children are created, and the last one listed is deleted.
	n := 0
	var gone []string
	page, err := c.ChildrenPage(ctx, top, nil, 10)
	must(t, err)
	all := page.Names
	for page.Next != nil {
		last := page.Names[len(page.Names)-1]
		must(t, c.Delete(ctx, top+"/"+last, -1))
		gone = append(gone, last)
		create(fmt.Sprintf("new-%d", n))
		n++
		page, err = c.ChildrenPage(ctx, top, page.Next, 10)
		must(t, err)
		all = append(all, page.Names...)
	}
	if slices.Sort(all); !slices.Equal(all, want) || len(gone) != 9 {
		t.Errorf("with changes in between: %q, gone %q", all, gone)
	}
}

// A page has a bounded number of bytes, too.
func TestPagesOfLongNamesAreShort(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	name := make([]byte, 100_000)
	for i := range name {
		name[i] = 'a'
	}
	for i := range 8 {
		_, _, err := c.Create(ctx, fmt.Sprintf("%s/%d%s", top, i, name), nil, CreateOptions{})
		must(t, err)
	}
	page, err := c.ChildrenPage(ctx, top, nil, 10_000)
	must(t, err)
	if len(page.Names) != 3 || page.Next == nil || page.Stat.NumChildren != 8 {
		t.Errorf("%d names of 100 kB, next %v, stat %+v", len(page.Names), page.Next != nil, page.Stat)
	}
	if all := pages(t, c, top, 10_000, func() {}); len(all) != 8 {
		t.Errorf("%d in all", len(all))
	}
}

func TestCursorsThatLeadNowhereAreRefused(t *testing.T) {
	disk := vfs.NewMem()
	addr, stop := serveUntil(t, disk)
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	for i := range 20 {
		_, _, err := c.Create(ctx, fmt.Sprintf("%s/%d", top, i), nil, CreateOptions{})
		must(t, err)
	}
	page, err := c.ChildrenPage(ctx, top, nil, 10)
	must(t, err)
	refused := func(what string, cursor []byte) {
		t.Helper()
		if page, err := c.ChildrenPage(ctx, top, cursor, 10); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("%s: %v, %v", what, page.Names, err)
		}
	}
	refused("no cursor", []byte("x"))
	refused("without names", page.Next[:bytes.IndexByte(page.Next, '/')+1])
	for _, name := range page.Names {
		must(t, c.Delete(ctx, top+"/"+name, -1))
	}
	refused("all deleted", page.Next)
	page, err = c.ChildrenPage(ctx, top, nil, 5)
	must(t, err)
	stop()
	addr, _ = serveUntil(t, disk)
	must(t, c.SetServers(addr))
	refused("of an earlier run", page.Next)
	if all := pages(t, c, top, 3, func() {}); len(all) != 10 {
		t.Errorf("from the start: %q", all)
	}
}

// A child that is deleted and created again comes before all others: a cursor that names it
// continues at its old position, and nothing is listed twice.
func TestPagesGoOnWhereAChildWasCreatedAgain(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	create := func(name string) {
		_, _, err := c.Create(ctx, top+"/"+name, nil, CreateOptions{})
		must(t, err)
	}
	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("%02d", i))
		create(want[i])
	}
	page, err := c.ChildrenPage(ctx, top, nil, 10)
	must(t, err)
	last := page.Names[9]
	must(t, c.Delete(ctx, top+"/"+last, -1))
	create(last)
	rest, err := c.ChildrenPage(ctx, top, page.Next, 100)
	must(t, err)
	if all := slices.Sorted(slices.Values(append(page.Names, rest.Names...))); !slices.Equal(all, want) {
		t.Errorf("%q, then %q", page.Names, rest.Names)
	}
}

func TestPagesNeedARight(t *testing.T) {
	addr, _ := serveUntil(t, vfs.NewMem())
	c, ctx := dialed(t, addr, Options{}), awaittest.Within(t)
	top := home(t, c)
	_, err := c.SetACL(ctx, top, []zk.ACL{{Perms: zk.PermAll &^ zk.PermRead, Identity: zk.Identity{Scheme: "world", ID: "anyone"}}}, -1)
	must(t, err)
	if _, err := c.ChildrenPage(ctx, top, nil, 5); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("without READ: %v", err)
	}
	if _, err := c.ChildrenPage(ctx, top+"/none", nil, 5); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("of nothing: %v", err)
	}
	for _, limit := range []int{-1, 0, 10_001} {
		if _, err := c.ChildrenPage(ctx, top, nil, limit); err == nil {
			t.Errorf("limit %d is accepted", limit)
		}
	}
}
