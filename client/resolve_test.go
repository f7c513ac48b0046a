package client

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/names"
	"github.com/conclave-project/conclave/zk"
)

// resolver returns a resolver whose server answers on a pipe. It answers 192.0.2.1
// for every name, except that it never answers for names that begin with "dead".
func resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		context.AfterFunc(ctx, func() { _ = far.Close() })
		go answerNames(far)
		return near, nil
	}}
}

// answerNames reads queries, each of which is preceded by a length of two bytes.
func answerNames(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		query := make([]byte, int(length[0])<<8|int(length[1]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		if strings.HasPrefix(string(query[13:]), "dead") {
			continue
		}
		end := 12 // the end of the header, where the name begins
		for query[end] != 0 {
			end += int(query[end]) + 1
		}
		end += 5
		answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end]...)
		if query[end-3] == 1 { // an A record
			answer[7] = 1
			answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 192, 0, 2, 1)
		}
		if _, err := conn.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
			return
		}
	}
}

// TestNameWithoutAnAnswerKeepsNoOtherWaiting covers a bug: all names shared five
// seconds, one after the other, and the names after the one without an answer were
// never looked up.
func TestNameWithoutAnAnswerKeepsNoOtherWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &Client{options: Options{Resolver: resolver()}, ctx: ctx, book: names.New(ctx, resolver().LookupHost)}
	found := c.lookUp([]string{"dead.test.:1", "live.test.:2", "192.0.2.7:3", "dead.test.:4"})
	want := [][]string{nil, {"192.0.2.1:2"}, {"192.0.2.7:3"}, nil}
	if !slices.EqualFunc(found, want, slices.Equal[[]string]) {
		t.Errorf("found %q", found)
	}
	cancel()
	c.group.Wait()
	if c.cause != nil {
		t.Errorf("a name that nobody waited for is the cause: %v", c.cause)
	}
	c.ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if found = c.lookUp([]string{"dead.test.:1"}); found[0] != nil || c.cause == nil {
		t.Errorf("found %q, %v", found, c.cause)
	}
	c.group.Wait()
}

// TestListThatWasReplacedWhileItWasLookedUpCountsNoMore must hold no matter which
// look-up ends last.
func TestListThatWasReplacedWhileItWasLookedUpCountsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		c := f.start(t, nil)
		must(t, c.SetServers("new:1"))
		if c.tellResolved([]string{"old:1"}, [][]string{{"old:1"}}) {
			t.Error("the old list was taken for the answer")
		}
		must(t, c.SetServers("newer:1"))
		must(t, c.SetServers("newest:1"))
		synctest.Wait()
		time.Sleep(time.Second)
		if server := c.Server(); server != "newest:1" {
			t.Errorf("attached to %s", server)
		}
		dials := len(f.dials)
		must(t, c.SetServers("newest:1")) // no change
		time.Sleep(time.Second)
		if len(f.dials) != dials {
			t.Error("the same list again made the client connect again")
		}
		must(t, c.Close())
	})
}

func TestChrootIsNotWrittenAfterEachServer(t *testing.T) {
	if _, _, err := parseServers("h1:1/app,h2:1/app"); err == nil {
		t.Error("taken for a chroot with a comma")
	}
}

// TestPathsDoNotLeadOutOfTheChroot: "le" in the chroot "/app" would be "/apple".
func TestPathsDoNotLeadOutOfTheChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		o := f.options()
		c, err := Dial(t.Context(), "a:1/app", o)
		must(t, err)
		for _, r := range []zk.Request{{Op: zk.OpGetData, Path: "le"}, {Op: zk.OpSync, Path: "le"},
			{Op: zk.OpGetEphemerals, Path: "le"}, {Op: zk.OpMulti, Ops: []zk.Request{{Op: zk.OpDelete, Path: "le"}}}} {
			if _, err := c.Submit(t.Context(), r); err == nil {
				t.Errorf("Submit has sent %s of %q", r.Op, "le")
			}
		}
		_, errEphemerals := c.Ephemerals(t.Context(), "le")
		_, errHas := c.HasWatches(t.Context(), "le", zk.WatcherData)
		for name, err := range map[string]error{"Sync": c.Sync(t.Context(), "le"), "Ephemerals": errEphemerals,
			"RemoveWatches": c.RemoveWatches(t.Context(), "le", zk.WatcherData), "HasWatches": errHas} {
			wantCode(t, err, zk.ErrBadArguments)
			if len(f.requests) > 0 {
				t.Fatalf("%s has sent it", name)
			}
		}
		must(t, c.Close())
	})
}
