package sim

import (
	"bytes"
	"fmt"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/replica"
)

// pair is the connection between the election ports of two servers, in one direction. Only
// one message waits, the newest; a new connection begins with the last one sent.
type pair struct {
	from, to *process
	last     []byte // the last frame that from has sent in its current life
	frames   [][]byte
	moving   bool
	made     [2]int // the lives of both servers when the connection was made
}

// oldVotes draws, for some runs, that everything sent while the connection is cut arrives
// later, in order, as what a kernel has accepted does.
func (p *Plan) oldVotes(r *random) { p.OldVotes = p.Seed > knownSeeds && r.oneIn(5) }

func (w *world) pair(from, to *process) *pair {
	key := [2]node{from.node, to.node}
	q := w.pairs[key]
	if q == nil {
		q = &pair{from: from, to: to}
		w.pairs[key] = q
	}
	return q
}

// vote sends a notification.
func (p *process) vote(b *replica.OutgoingVote) {
	to := p.w.byID(b.To)
	if to == nil {
		return
	}
	frame := peerwire.AppendNotification(nil, &b.Notification)
	q := p.w.pair(p, to)
	q.last = frame
	q.frames = append(q.frames, frame)
	if q.connect(); len(q.frames) > 1 && !q.moving && !p.w.plan.OldVotes {
		q.frames = q.frames[len(q.frames)-1:]
	}
	q.move()
}

// connect makes the connection again if one of the two servers was restarted, or if it was
// cut: both then begin with their last message.
func (q *pair) connect() {
	now := [2]int{q.from.life, q.to.life}
	if !q.from.up || !q.to.up || !q.from.w.reachable(q.from.node, q.to.node) || !q.known() || q.made == now {
		return
	}
	back := q.from.w.pair(q.to, q.from)
	q.made, back.made = now, [2]int{now[1], now[0]}
	q.frames = nil
	if q.last != nil {
		q.frames = [][]byte{q.last}
	}
	back.frames = nil
	if back.last != nil {
		back.frames = [][]byte{back.last}
	}
	back.move()
}

// known reports whether one of the two knows where the other one listens.
func (q *pair) known() bool { return q.from.reachesVotes(q.to) || q.to.reachesVotes(q.from) }

func (q *pair) move() {
	w := q.from.w
	if q.moving || len(q.frames) == 0 || !q.from.up || !w.open(q.from.node, q.to.node) {
		return
	}
	q.moving = true
	made := q.made
	w.after(q.from.random.between(0, q.from.delayMs()), func() {
		q.moving = false
		if len(q.frames) == 0 || !w.open(q.from.node, q.to.node) {
			return
		}
		if q.made == made && q.to.up && q.to.life == made[1] {
			frame := q.frames[0]
			q.frames = q.frames[1:]
			q.arrive(frame)
		}
		q.move()
	})
}

func (q *pair) arrive(frame []byte) {
	n, err := peerwire.ElectionFrameLength(frame)
	var got fle.Notification
	if err == nil && n == len(frame)-4 {
		got, err = peerwire.DecodeNotification(bytes.Clone(frame[4:]))
	}
	if err != nil {
		q.from.w.fail(fmt.Errorf("server %v cannot read the vote of %v: %w", q.to.node, q.from.node, err))
		return
	}
	got.Config, got.Proposed = q.from.masks.realText(got.Config), q.from.masks.realText(got.Proposed)
	q.from.claims(&got)
	q.from.w.note(q.to.node, "vote", q.from.node, got.Zxid, got.String())
	to, from := q.to, q.from // with exchanged addresses, a vote reaches another server and seems to come from another one
	if to.stray != nil && to.stray.up && to.stray != from {
		to = to.stray
	}
	if from.stray != nil && from.stray != to && from.random.oneIn(2) {
		from = from.stray
	}
	if to.ignoresVote(&got) {
		return
	}
	to.push(replica.Event{Kind: replica.EventNotification, Server: from.id, Notification: &got})
}

// forgetVotes is called at the end of a process: its unsent messages are lost.
func (p *process) forgetVotes() {
	for _, t := range p.w.servers {
		q := p.w.pair(p, t)
		q.last, q.frames = nil, nil
	}
}

// flowVotes sends the votes that a cut has held up.
func (p *process) flowVotes() {
	for _, t := range p.w.servers {
		if t != p {
			p.w.pair(p, t).move()
		}
	}
}
