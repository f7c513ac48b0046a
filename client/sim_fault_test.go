package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
)

// simReplyBytesMax is the longest reply that simulated clients accept.
const simReplyBytesMax = 16 << 10

// spoil joins frames, and sometimes damages one of them. It reports whether the
// connection breaks after the bytes. The mutex is held.
func (e *simEnsemble) spoil(frames [][]byte) (out []byte, broken bool) {
	for i, frame := range frames {
		if !e.quiet && e.rng.IntN(150) == 0 {
			switch e.rng.IntN(3) {
			case 0:
				return append(out, frame[:e.rng.IntN(len(frame))]...), true // in the middle
			case 1:
				frame = e.malform(frame)
			case 2:
				if i+1 < len(frames) && isReply(frame) && isReply(frames[i+1]) {
					frame, frames[i+1] = frames[i+1], frame // out of order
				}
			}
		}
		out = append(out, frame...)
	}
	return out, false
}

// isReply reports whether a frame answers a request of a program. If events are out
// of order, a client has no way to know.
func isReply(frame []byte) bool { return int32(binary.BigEndian.Uint32(frame[wire.PrefixBytes:])) > 0 }

// malform returns a frame that no sound server sends. The frame does not lie: if its
// header says something about a request, that is true.
func (e *simEnsemble) malform(frame []byte) []byte {
	const header = wire.PrefixBytes + wire.ReplyHeaderBytes
	frame = bytes.Clone(frame)
	prefix := func(n int) { binary.BigEndian.PutUint32(frame, uint32(n)) }
	switch kind := e.rng.IntN(7); {
	case kind == 0:
		prefix(-1)
	case kind == 1:
		prefix(1 << 30) // the rest never comes
	case kind == 2 && len(frame) > header: // ends within the body
		frame = frame[:header+e.rng.IntN(len(frame)-header)]
		prefix(len(frame) - wire.PrefixBytes)
	case kind == 3: // ends within the header
		frame = frame[:wire.PrefixBytes+e.rng.IntN(wire.ReplyHeaderBytes)]
		prefix(len(frame) - wire.PrefixBytes)
	case kind == 4: // a reply to a request that nobody made
		binary.BigEndian.PutUint32(frame[wire.PrefixBytes:], 1<<30)
	case kind == 5: // an event without content
		frame = append(wire.AppendReply(nil, wire.ReplyHeader{Xid: -1}, nil), 1, 2, 3)
		prefix(len(frame) - wire.PrefixBytes)
	default: // longer than the client accepts
		frame = append(frame, make([]byte, simReplyBytesMax)...)
		prefix(len(frame) - wire.PrefixBytes)
	}
	return frame
}

// trouble harms a server, or changes the server list of a client, from time to time
// until the context ends.
func (r *simRun) trouble(ctx context.Context, rng *rand.Rand) {
	for simNap(ctx, time.Duration(rng.IntN(2*r.plan.troubleMs))*time.Millisecond) {
		if rng.IntN(6) == 0 {
			r.slots[rng.IntN(len(r.slots))].move(r.someServers(rng))
			continue
		}
		s := r.e.servers[rng.IntN(len(r.e.servers))]
		lasts := time.Duration(rng.IntN(2*r.plan.troubleMs)) * time.Millisecond
		if rng.IntN(8) == 0 {
			lasts += time.Duration(r.plan.timeoutMs) * time.Millisecond // so that sessions expire
		}
		r.e.harm(s, rng, lasts)
	}
}

// harm does one thing to a server, for the given time.
func (e *simEnsemble) harm(s *simServer, rng *rand.Rand, lasts time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var during []*bool
	quietly := false
	switch rng.IntN(9) {
	case 0:
		during = []*bool{&s.down}
	case 1:
		during = []*bool{&s.hanging}
	case 2:
		during = []*bool{&s.mute}
	case 3:
		during = []*bool{&s.deaf}
	case 4:
		during = []*bool{&s.silent}
	case 5:
		during = []*bool{&s.isolated}
		if quietly = rng.IntN(2) == 0; quietly {
			lasts += 4 * time.Second // its clients go on after their sessions have expired
		}
	case 6:
		during = []*bool{&s.deaf, &s.silent}
	}
	for c := range s.conns {
		switch n := rng.IntN(6); {
		case quietly:
		case n == 0:
			c.socket.reset()
		case n == 1:
			c.socket.vanish(rng.IntN(2) == 0, rng.IntN(2) == 0)
		}
	}
	for _, flag := range during {
		*flag = true
		time.AfterFunc(lasts, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			*flag = false
			e.tell()
		})
	}
	e.tell()
}

// heal ends all trouble. A connection that has lost bytes stays that way.
func (e *simEnsemble) heal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quiet = true
	for _, s := range e.servers {
		s.down, s.hanging, s.mute, s.deaf, s.silent, s.isolated = false, false, false, false, false, false
	}
	e.tell()
}

// someServers returns a list with at least one server.
func (r *simRun) someServers(rng *rand.Rand) string {
	var all []string
	for _, s := range r.e.servers {
		all = append(all, s.address)
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:1+rng.IntN(len(all))]
	slices.Sort(all)
	return strings.Join(all, ",")
}

// simNap sleeps, and reports whether it has slept for the whole time.
func simNap(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
