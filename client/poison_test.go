package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// replyLong answers with the given number of bytes of data, in several pieces.
func (f *fakeConn) replyLong(r *zk.Request, bytes int) {
	result := zk.Result{Op: r.Op, Data: make([]byte, bytes)}
	frame := wire.AppendReply(nil, wire.ReplyHeader{Xid: r.Xid, Code: zk.OK}, &result)
	for len(frame) > 0 {
		n := min(len(frame), 1000)
		_, _ = f.Write(frame[:n])
		frame = frame[n:]
	}
}

// TestReplyThatIsTooLongCostsItsOwnRequestOnly: it used to end the connection, again and
// again, and thus to lose everybody's writes.
func TestReplyThatIsTooLongCostsItsOwnRequestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{script: func(f *fakeConn, r *zk.Request) bool {
			long := r.Path == "/long"
			if long {
				f.replyLong(r, 100_000)
			}
			return long
		}}
		c := f.start(t, func(o *Options) { o.ReplyBytesMax = 10_000 })
		futures := []*Future{}
		for _, r := range []zk.Request{{Op: zk.OpSetData, Path: "/a"}, {Op: zk.OpGetData, Path: "/long"},
			{Op: zk.OpSetData, Path: "/b"}, {Op: zk.OpGetData, Path: "/c"}} {
			future, err := c.Submit(t.Context(), r)
			must(t, err)
			futures = append(futures, future)
		}
		for i, future := range futures {
			_, err := future.Wait(t.Context())
			if long := i == 1; long != errors.Is(err, ErrReplyTooLong) || !long && err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
		_, _, w, err := c.GetW(t.Context(), "/long")
		if w != nil || !errors.Is(err, ErrReplyTooLong) || OutcomeOf(err) != NotApplied {
			t.Errorf("%v, %v", err, OutcomeOf(err))
		}
		data, _, err := c.Get(t.Context(), "/d")
		if string(data) != "/d" || err != nil || len(f.dials) != 1 {
			t.Errorf("%q, %v, on connection %d", data, err, len(f.dials))
		}
		must(t, c.Close())
	})
}

// TestLengthThatBelongsToNoReplyEndsTheConnection: what follows cannot be read.
func TestLengthThatBelongsToNoReplyEndsTheConnection(t *testing.T) {
	for name, frame := range map[string][]byte{
		"a notification": append([]byte{2, 0, 0, 0, 255, 255, 255, 255}, make([]byte, 12)...),
		"another xid":    append([]byte{2, 0, 0, 0, 0, 1, 0, 0}, make([]byte, 12)...),
		"nonsense":       {255, 0, 0, 0, 0, 0, 0, 0},
	} {
		inBubble(name, t, func(t *testing.T) {
			f := &fake{}
			f.script = func(c *fakeConn, r *zk.Request) bool {
				if r.Op == zk.OpGetData && f.seen(zk.OpGetData) == 1 {
					_, _ = c.Write(frame)
					return true
				}
				return false
			}
			c := f.start(t, nil)
			data, _, err := c.Get(t.Context(), "/a")
			if string(data) != "/a" || err != nil || len(f.dials) != 2 {
				t.Errorf("%q, %v, on connection %d", data, err, len(f.dials))
			}
			must(t, c.Close())
		})
	}
}

// TestRequestThatKillsItsConnectionIsGivenUp, and the others are not.
func TestRequestThatKillsItsConnectionIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{timeoutMs: 100_000, script: func(f *fakeConn, r *zk.Request) bool {
			if r.Path == "/poison" {
				time.Sleep(10 * time.Millisecond) // others come meanwhile
				_ = f.Close()
				return true
			}
			return false
		}}
		c := f.start(t, nil)
		poison, others := make(chan error, 1), make(chan error, 5)
		go func() {
			_, _, err := c.Get(t.Context(), "/poison")
			poison <- err
		}()
		synctest.Wait()
		for range cap(others) {
			go func() {
				_, _, err := c.Get(t.Context(), "/a")
				others <- err
			}()
		}
		if err := <-poison; !errors.Is(err, zk.ErrConnectionLoss) || OutcomeOf(err) != NotApplied {
			t.Errorf("%v, %v", err, OutcomeOf(err))
		}
		for range cap(others) {
			must(t, <-others)
		}
		f.mu.Lock()
		sent := 0
		for _, r := range f.requests {
			if r.Path == "/poison" {
				sent++
			}
		}
		f.mu.Unlock()
		if sent != 1+resendsMax {
			t.Errorf("sent %d times", sent)
		}
		_, _, err := c.Get(t.Context(), "/a") // the others may have been answered before the last loss
		must(t, err)
		must(t, c.Close())
	})
}

// TestListThatKillsItsConnectionEndsADeletion, and costs all others eleven connections and no more.
func TestListThatKillsItsConnectionEndsADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{timeoutMs: 100_000, script: func(f *fakeConn, r *zk.Request) bool {
			if r.Op == zk.OpGetChildren2 {
				_ = f.Close()
			}
			return r.Op == zk.OpGetChildren2
		}}
		c := f.start(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := c.DeleteRecursive(ctx, "/a", -1, nil)
		if sent := f.seen(zk.OpGetChildren2); !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil || sent != 1+resendsMax {
			t.Errorf("it was sent %d times, and ended with %v", sent, err)
		}
		_ = c.Close()
	})
}

// TestParentThatKillsItsConnectionEndsCreateAll: it may, with a long ACL, be more than servers take.
func TestParentThatKillsItsConnectionEndsCreateAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{timeoutMs: 100_000, script: func(f *fakeConn, r *zk.Request) bool {
			switch r.Path {
			case "/a":
				_ = f.Close()
			case "/a/b":
				f.reply(r, zk.ErrNoNode)
			}
			return true
		}}
		c := f.start(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, _, err := c.CreateAll(ctx, "/a/b", nil, CreateOptions{})
		if sent := f.seen(zk.OpCreate2) - 1; !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil || sent != 1+resendsMax {
			t.Errorf("the parent was sent %d times, and it ended with %v", sent, err)
		}
		c.Detach()
	})
}
