package server

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Messages from other servers wait outside when the loop is behind. That holds for every kind,
// not only for what goes to the disk.
func TestWhatPeersSayIsBounded(t *testing.T) {
	const talkers, each = 50, 6
	const long, half = 1 << 20, 512 << 10
	for name, what := range map[string]struct {
		bytes int // of an event, at least
		say   func(*peers)
	}{
		"acks":     {eventBytes, func(p *peers) { p.Receive(1, make([]zab.Message, 4000)) }},
		"requests": {long, func(p *peers) { p.Receive(1, []zab.Message{{Request: &zab.Request{Body: make([]byte, long)}}}) }},
		"identities": {long, func(p *peers) {
			p.Receive(1, []zab.Message{{Request: &zab.Request{Identities: []zk.Identity{{ID: string(make([]byte, long))}}}}})
		}},
		"touches":   {long, func(p *peers) { p.Receive(1, []zab.Message{{Touches: make([]zab.Touch, long/16)}}) }},
		"votes":     {half, func(p *peers) { p.notified(1, fle.Notification{Config: string(make([]byte, half))}) }},
		"proposals": {half, func(p *peers) { p.notified(1, fle.Notification{Proposed: string(make([]byte, half))}) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{cfg: Default(), disk: newDisk(nil), peersEased: make(chan struct{}, 1)}
			s.done, s.stop = context.WithCancelCause(context.Background())
			s.inbox.init(func() int64 { return 1 })
			p := &peers{server: s}
			said := make(chan struct{}, talkers*each)
			for range talkers {
				s.task(func() {
					for range each {
						what.say(p)
						said <- struct{}{}
					}
				})
			}
			for len(said) < talkers*each {
				synctest.Wait()
				batch := s.inbox.take().events
				if n := len(batch) * what.bytes; n > 2*peerInboxMax || n == 0 {
					t.Fatalf("%s: %d bytes wait for the loop", name, n)
				}
				s.taken(batch)
			}
			s.tasks.Wait()
		})
	}
}
