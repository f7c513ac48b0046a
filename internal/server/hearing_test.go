package server

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/zab"
)

// What other servers say waits outside when the loop is behind, of every kind: not
// only what goes to the disk.
func TestWhatPeersSayIsBounded(t *testing.T) {
	const talkers, each = 50, 6
	for name, say := range map[string]func(*peers){
		"acks":     func(p *peers) { p.Receive(1, make([]zab.Message, 4000)) },
		"requests": func(p *peers) { p.Receive(1, []zab.Message{{Request: &zab.Request{Body: make([]byte, 1<<20)}}}) },
		"touches":  func(p *peers) { p.Receive(1, []zab.Message{{Touches: make([]zab.Touch, 1<<16)}}) },
		"votes":    func(p *peers) { p.notified(1, fle.Notification{Config: string(make([]byte, 512<<10))}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &Server{disk: newDisk(nil), heardEased: make(chan struct{}, 1)}
			s.done, s.stop = context.WithCancelCause(context.Background())
			s.inbox.init()
			p := &peers{server: s}
			said := make(chan struct{}, talkers*each)
			for range talkers {
				s.task(func() {
					for range each {
						say(p)
						said <- struct{}{}
					}
				})
			}
			for len(said) < talkers*each {
				synctest.Wait()
				batch := s.inbox.take(nil)
				if n := heardBytes(batch); n > 2*hearingMax || n == 0 {
					t.Fatalf("%s: %d bytes wait for the loop", name, n)
				}
				s.taken(batch)
			}
			s.tasks.Wait()
		})
	}
}
