package zab_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/zab"
)

// farBehind is a leader that reads a log of many records for a learner at zxid 1.1.
func farBehind(t *testing.T, log []zab.Record) *solo {
	t.Helper()
	last := log[len(log)-1].Zxid
	s := newSolo(t, zab.Stored{Recent: log[len(log)-20:], Last: last, Accepted: 1, Current: 1})
	s.leads()
	s.step(up(53))
	h := hello(53, 1)
	h.Message.Kind = zab.KindObserverInfo
	s.step(h)
	if got := reads(s.p.Step(s.nowMs, []zab.Event{ackEpoch(53, z(1, 1), 1)})); len(got) != 1 || got[0].Zxid != z(1, 1) {
		t.Fatalf("asked to read: %v", got)
	}
	return s
}

func reads(effects []zab.Effect) (all []zab.Effect) {
	for _, e := range effects {
		if e.Kind == zab.EffectReadLog {
			all = append(all, e)
		}
	}
	return all
}

func countLog(n uint32) (all []zab.Record) {
	for i := range n {
		all = append(all, zab.Record{Zxid: z(1, i+1), Payload: []byte("x")})
	}
	return all
}

// A learner that is far behind is sent its history in many short steps. Between them the leader
// pings the others. Together they are a single DIFF, without a gap.
func TestLearnerFarBehindIsSentItsHistoryInParts(t *testing.T) {
	const part = 50
	log := countLog(1000)
	s := farBehind(t, log)
	at, queued, heads, ended := 0, z(1, 1), 0, false
	for steps := 0; !ended; steps++ {
		if steps > 30 {
			t.Fatalf("it has come to %s", queued)
		}
		end := min(at+part, 985) // up to what is in memory
		s.nowMs += 900           // slow: longer than initLimit in total, but it moves
		effects := s.p.Step(s.nowMs, []zab.Event{on(2, zab.Message{Kind: zab.KindPing}), {Kind: zab.EventLogRead, Link: 53, Records: log[at:end], More: end < 985, OK: true}})
		if len(effects) > 2*part+60 {
			t.Fatalf("%d effects in one step", len(effects))
		}
		for _, e := range effects {
			if e.Kind != zab.EffectSend || e.Link != 53 {
				continue
			}
			switch e.Message.Kind {
			case zab.KindDiff:
				heads++
			case zab.KindProposal:
				if queued++; e.Message.Zxid != queued {
					t.Fatalf("%s after %s", e.Message.Zxid, queued-1)
				}
			case zab.KindNewLeader:
				ended = true
			case zab.KindSnap:
				t.Fatal("a snapshot")
			}
		}
		if next := reads(effects); !ended && (len(next) != 1 || next[0].Zxid != queued || next[0].To != log[980].Zxid) {
			t.Fatalf("reads %v, sent up to %s", next, queued)
		}
		at = end - 1
	}
	if heads != 1 || queued != log[len(log)-1].Zxid {
		t.Errorf("%d DIFFs, up to %s", heads, queued)
	}
}

// Records that were sent cannot be taken back: if the log cannot be read to its end, the
// learner must connect again. If nothing was sent yet, it is sent a snapshot.
func TestLogThatEndsHalfwayClosesTheLink(t *testing.T) {
	log := countLog(1000)
	for what, rest := range map[string]zab.Event{
		"unreadable": {}, "a gap": {Records: log[60:100], OK: true}, "nowhere": {Records: log[49:50], More: true, OK: true},
		"a gap to memory": {Records: log[49:500], OK: true},
	} {
		for _, begun := range []bool{false, true} {
			s := farBehind(t, log)
			if begun {
				s.p.Step(s.nowMs, []zab.Event{{Kind: zab.EventLogRead, Link: 53, Records: log[:50], More: true, OK: true}})
			}
			rest.Kind, rest.Link = zab.EventLogRead, 53
			closed, snapshot := false, false
			for _, e := range s.p.Step(s.nowMs, []zab.Event{rest}) {
				closed = closed || e.Kind == zab.EffectClose && e.Link == 53
				snapshot = snapshot || e.Kind == zab.EffectSendSnapshot
				if e.Kind == zab.EffectSend && e.Message.Kind == zab.KindNewLeader && begun {
					t.Errorf("%s: it is told that it has all", what)
				}
			}
			if closed != begun || snapshot == begun {
				t.Errorf("%s, begun %v: closed %v, snapshot %v", what, begun, closed, snapshot)
			}
		}
	}
}

// The records in memory may be as long as a DIFF may be. A DIFF that has begun with the log
// continues with them, and is not begun again and again.
func TestDiffInPartsGoesOnWithALongMemory(t *testing.T) {
	log := countLog(1000)
	long := make([]byte, 5<<20)
	for i := 980; i < 1000; i++ {
		log[i].Payload = long
	}
	s := farBehind(t, log)
	s.p.Step(s.nowMs, []zab.Event{{Kind: zab.EventLogRead, Link: 53, Records: log[:900], More: true, OK: true}})
	told := false
	for _, e := range s.p.Step(s.nowMs, []zab.Event{{Kind: zab.EventLogRead, Link: 53, Records: log[899:990], OK: true}}) {
		told = told || e.Kind == zab.EffectSend && e.Message.Kind == zab.KindNewLeader
	}
	if !told {
		t.Error("the learner is not sent what is in memory")
	}
}
