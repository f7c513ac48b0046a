package client

import (
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/zk"
)

// A write by a method is not applied if a write by a Future that was submitted earlier is
// lost: neither had been sent. A read is sent again, and so is a write if no earlier write
// was lost.
func TestWriteIsNotAppliedWhereOneSubmittedBeforeIsLost(t *testing.T) {
	for what, ops := range map[string][2]zk.Op{
		"a write after a write": {zk.OpSetData, zk.OpSetData},
		"a write after a read":  {zk.OpGetData, zk.OpSetData},
		"a read after a write":  {zk.OpSetData, zk.OpGetData},
	} {
		inBubble(what, t, func(t *testing.T) {
			let := make(chan struct{})
			f := &fake{script: func(c *fakeConn, r *zk.Request) bool {
				if r.Path == "/stuck" {
					<-let
					_ = c.Close()
				}
				return r.Path == "/stuck"
			}}
			c := f.start(t, nil)
			submit := func(op zk.Op, path string) *Future {
				future, err := c.Submit(t.Context(), zk.Request{Op: op, Path: path, Version: -1})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				return future
			}
			submit(zk.OpGetData, "/stuck")
			submit(zk.OpGetData, "/blocks") // the socket: what comes after it is not sent
			first, second := submit(ops[0], "/first"), make(chan error, 1)
			go func() {
				var err error
				if ops[1].IsWrite() {
					_, err = c.Set(t.Context(), "/second", nil, -1)
				} else {
					_, _, err = c.Get(t.Context(), "/second")
				}
				second <- err
			}()
			synctest.Wait()
			close(let)
			err := <-second
			late := ops[0].IsWrite() && ops[1].IsWrite()
			if _, errFirst := first.Wait(t.Context()); errFirst == nil || (err != nil) != late {
				t.Errorf("the first: %v; the second: %v", errFirst, err)
			}
			if late && (OutcomeOf(err) != NotApplied || !isLoss(err) || f.seen(zk.OpSetData) != 0) {
				t.Errorf("%v, %v; %d writes were sent", err, OutcomeOf(err), f.seen(zk.OpSetData))
			}
			_ = c.Close()
		})
	}
}
