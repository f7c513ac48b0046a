package zab

import (
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// observing returns an observer that has 5.1 to 5.3 and was told of a leader, and the server
// that it connects to.
func observing(t *testing.T) (*Peer, *Effect) {
	t.Helper()
	var recent []Record
	for c := uint32(1); c <= 3; c++ {
		recent = append(recent, Record{Zxid: zk.MakeZxid(5, c)})
	}
	p := New(Options{ID: 4, Observer: true, Masters: true, TickMs: 200, InitMs: 2000, SyncMs: 1000},
		Config{Quorum: quorum.NewMajority(1, 2, 3)}, Stored{Accepted: 5, Current: 5, Last: zk.MakeZxid(5, 3), Recent: recent})
	return p, connects(t, p)
}

// connects tells an observer that 3 leads, and returns the server that it connects to.
func connects(t *testing.T, p *Peer) *Effect {
	t.Helper()
	effects := p.Step(p.nowMs, []Event{{Kind: EventElected, Server: 3}})
	e, ok := effectOf(effects, EffectConnect)
	if !ok {
		t.Fatalf("an observer that is told of a leader does %v", effects)
	}
	return e
}

func effectOf(effects []Effect, kind EffectKind) (*Effect, bool) {
	for i := range effects {
		if effects[i].Kind == kind {
			e := effects[i]
			return &e, true
		}
	}
	return nil, false
}

// says steps an observer with messages from the other end of its link.
func says(p *Peer, link LinkID, messages ...*Message) []Effect {
	batch := []Event{{Kind: EventLinkUp, Link: link, Outgoing: true}}
	for _, m := range messages {
		batch = append(batch, Event{Kind: EventReceive, Link: link, Message: m})
	}
	return p.Step(p.nowMs+1, batch)
}

func TestObserverTriesTheMastersByTurnsAndInTheEndTheLeader(t *testing.T) {
	p, e := observing(t)
	var seen []quorum.ID
	for e.Master {
		if id, _ := p.Master(); id != e.Server || !p.BehindMaster() {
			t.Errorf("it connects to %d and tells of %d", e.Server, id)
		}
		if n := len(seen); e.Server == 3 || n > 0 && seen[n-1] == e.Server {
			t.Fatalf("after %v it tries %d; 1 and 2 may be masters", seen, e.Server)
		}
		seen = append(seen, e.Server)
		p.Step(p.nowMs+100, []Event{{Kind: EventLinkDown}})
		e = connects(t, p)
	}
	if e.Server != 3 || p.BehindMaster() || len(seen) < 20 || p.nowMs > p.opts.InitMs+200 {
		t.Errorf("after %d masters, at %d ms, it goes to %d", len(seen), p.nowMs, e.Server)
	}
	p.Step(p.nowMs+100, []Event{{Kind: EventLinkDown}})
	if e := connects(t, p); !e.Master {
		t.Errorf("after the leader it goes to %d, which is no master", e.Server)
	}
}

// An observer that was served begins to count again.
func TestObserverThatWasServedTriesMastersAgain(t *testing.T) {
	p, _ := observing(t)
	says(p, 1, &Message{Kind: KindLeaderInfo, Zxid: zk.MakeZxid(5, 0)}, &Message{Kind: KindDiff, Zxid: zk.MakeZxid(5, 3)},
		&Message{Kind: KindNewLeader, Zxid: zk.MakeZxid(5, 0)})
	p.Step(p.nowMs, []Event{{Kind: EventDone, Ticket: p.ticket}, {Kind: EventReceive, Link: 1, Message: &Message{Kind: KindUpToDate}}})
	if p.phase != Broadcast {
		t.Fatalf("it is in phase %v", p.phase)
	}
	for range 50 {
		p.Step(p.nowMs+100, []Event{{Kind: EventReceive, Link: 1, Message: &Message{Kind: KindPing}}})
	}
	p.Step(p.nowMs, []Event{{Kind: EventLinkDown, Link: 1}})
	p.Step(p.nowMs, []Event{{Kind: EventDone, Ticket: p.ticket}})
	if e := connects(t, p); !e.Master {
		t.Errorf("it goes to %d, and has lost a master only now", e.Server)
	}
}

func TestObserversShareTheMasters(t *testing.T) {
	firsts := map[quorum.ID]int{}
	for id := quorum.ID(10); id < 40; id++ {
		p := &Peer{opts: Options{ID: id}, config: Config{Quorum: quorum.NewMajority(1, 2, 3)}}
		firsts[p.nextMaster(3)]++
	}
	if firsts[1] < 8 || firsts[2] < 8 || firsts[3] != 0 {
		t.Errorf("of 30 observers so many begin with each master: %v", firsts)
	}
}

// Apache's masters truncate an observer that has more than they have. But what it has of an
// epoch was committed, and its clients have seen it.
func TestObserverIsNotTakenBackByAMasterThatIsBehind(t *testing.T) {
	leaderInfo := &Message{Kind: KindLeaderInfo, Zxid: zk.MakeZxid(5, 0)}
	for _, m := range []*Message{
		{Kind: KindTrunc, Zxid: zk.MakeZxid(5, 2)},
		{Kind: KindSnap, Zxid: zk.MakeZxid(5, 2)},
	} {
		p, _ := observing(t)
		left, ok := effectOf(says(p, 1, leaderInfo, m), EffectLeave)
		if !ok || left.Reason != ReasonMasterBehind || left.Reload {
			t.Errorf("%s of a master that is behind: %v", m, left)
		}
		if p.Last() != zk.MakeZxid(5, 3) || p.Delivered() != zk.MakeZxid(5, 3) {
			t.Errorf("%s: the history ends at %v", m, p.Last())
		}
	}
	for _, m := range []*Message{ // as much, and more
		{Kind: KindDiff, Zxid: zk.MakeZxid(5, 3)},
		{Kind: KindSnap, Zxid: zk.MakeZxid(5, 4)},
	} {
		p, _ := observing(t)
		if left, ok := effectOf(says(p, 1, leaderInfo, m), EffectLeave); ok {
			t.Errorf("%s: %v", m, left)
		}
	}
}

// A master of a later epoch has everything that was committed in the older ones. What an
// observer has beyond that, from the time when it was a participant, was not committed.
func TestObserverIsTruncatedByAMasterOfALaterEpoch(t *testing.T) {
	p, _ := observing(t)
	says(p, 1, &Message{Kind: KindLeaderInfo, Zxid: zk.MakeZxid(6, 0)})
	p.Step(p.nowMs, []Event{{Kind: EventDone, Ticket: p.ticket}})
	effects := p.Step(p.nowMs+1, []Event{{Kind: EventReceive, Link: 1, Message: &Message{Kind: KindTrunc, Zxid: zk.MakeZxid(5, 2)}}})
	if e, ok := effectOf(effects, EffectTruncate); !ok || e.Zxid != zk.MakeZxid(5, 2) {
		t.Errorf("TRUNC of a later epoch: %v", effects)
	}
}

func TestObserverWhoseTreeDiffersGoesToTheLeader(t *testing.T) {
	p, _ := observing(t)
	says(p, 1, &Message{Kind: KindLeaderInfo, Zxid: zk.MakeZxid(5, 0)}, &Message{Kind: KindDiff, Zxid: zk.MakeZxid(5, 3)})
	left, ok := effectOf(p.Step(p.nowMs, []Event{{Kind: EventDiverged}}), EffectLeave)
	if !ok || left.Reason != ReasonMasterJudges || left.Reload {
		t.Fatalf("a tree that differs behind a master: %v", left)
	}
	if e := connects(t, p); e.Server != 3 || e.Master {
		t.Errorf("it goes to %d, as a master: %v; the leader alone can judge", e.Server, e.Master)
	}
	p.Step(p.nowMs, []Event{{Kind: EventLinkDown}})
	if e := connects(t, p); !e.Master {
		t.Errorf("and later to %d", e.Server)
	}
}

// following returns a follower that serves in epoch 5 with 5.1 to 5.3, two of them committed,
// on link 1.
func following(t *testing.T) *Peer {
	t.Helper()
	p := New(Options{ID: 1, Masters: true, TickMs: 200, InitMs: 2000, SyncMs: 1000}, Config{Quorum: quorum.NewMajority(1, 2, 3)}, Stored{})
	connects(t, p)
	says(p, 1, &Message{Kind: KindLeaderInfo, Zxid: zk.MakeZxid(5, 0)})
	p.Step(p.nowMs, []Event{{Kind: EventDone, Ticket: p.ticket}})
	for _, m := range []*Message{{Kind: KindDiff}, {Kind: KindNewLeader, Zxid: zk.MakeZxid(5, 0)}} {
		p.Step(p.nowMs, []Event{{Kind: EventReceive, Link: 1, Message: m}})
	}
	p.Step(p.nowMs, []Event{{Kind: EventDone, Ticket: p.ticket}})
	var batch []Event
	for _, m := range []*Message{
		{Kind: KindUpToDate},
		{Kind: KindProposal, Zxid: zk.MakeZxid(5, 1)}, {Kind: KindProposal, Zxid: zk.MakeZxid(5, 2)}, {Kind: KindProposal, Zxid: zk.MakeZxid(5, 3)},
		{Kind: KindCommit, Zxid: zk.MakeZxid(5, 1)}, {Kind: KindCommit, Zxid: zk.MakeZxid(5, 2)},
	} {
		batch = append(batch, Event{Kind: EventReceive, Link: 1, Message: m})
	}
	p.Step(p.nowMs, batch)
	if p.master == nil || p.delivered != zk.MakeZxid(5, 2) {
		t.Fatalf("it does not serve: %v, %v", p.state, p.delivered)
	}
	return p
}

// comes connects an observer to a master's port on a link, and returns what it is told.
func comes(p *Peer, link LinkID, hello Hello, last zk.Zxid) []string {
	var told []string
	for _, m := range []*Message{
		{Kind: KindObserverInfo, Zxid: zk.MakeZxid(5, 0), Hello: hello},
		{Kind: KindAckEpoch, Zxid: last, Epoch: 5},
		{Kind: KindAck, Zxid: zk.MakeZxid(5, 0)},
	} {
		if m.Kind == KindAck && !strings.HasPrefix(told[len(told)-1], "NEWLEADER") {
			break
		}
		batch := []Event{{Kind: EventReceive, Link: link, Message: m}}
		if m.Kind == KindObserverInfo {
			batch = append([]Event{{Kind: EventLinkUp, Link: link, Observers: true}}, batch...)
		}
		for _, e := range p.Step(p.nowMs, batch) {
			switch {
			case e.Kind == EffectSend && e.Link == link:
				told = append(told, e.Message.String())
			case e.Link == link:
				told = append(told, e.String())
			}
		}
	}
	return told
}

func TestMasterGivesWhatIsCommittedAlone(t *testing.T) {
	for name, c := range map[string]struct {
		hello Hello
		last  zk.Zxid
		want  []string
	}{
		"one that lacks a transaction": {Hello{Server: 4}, zk.MakeZxid(5, 1), []string{
			"LEADERINFO epoch=5", "DIFF 5.2", "PROPOSAL 5.2", "COMMIT 5.2", "NEWLEADER epoch=5", "UPTODATE"}},
		"an empty observer":            {Hello{Server: 4}, 0, []string{"LEADERINFO epoch=5", "read-log 0.0 to 5.1 for link 9"}},
		"one that has all":             {Hello{Server: 4}, zk.MakeZxid(5, 2), []string{"LEADERINFO epoch=5", "DIFF 5.2", "NEWLEADER epoch=5", "UPTODATE"}},
		"one that has more":            {Hello{Server: 4}, zk.MakeZxid(5, 3), []string{"LEADERINFO epoch=5"}},
		"a tail of an older epoch":     {Hello{Server: 4}, zk.MakeZxid(4, 7), []string{"LEADERINFO epoch=5", "read-log 4.7 to 5.1 for link 9"}},
		"one with a newer ensemble":    {Hello{Server: 4, ConfigVersion: 7}, 0, []string{"close link 9"}},
		"one with the master's number": {Hello{Server: 1}, 0, []string{"close link 9"}},
	} {
		if got := comes(following(t), 9, c.hello, c.last); !slices.Equal(got, c.want) {
			t.Errorf("%s is told %q, want %q", name, got, c.want)
		}
	}
}

// A follower serves nobody at its port for learners, and no participant at its port for
// observers.
func TestMasterServesObserversAtTheirPortAlone(t *testing.T) {
	p := following(t)
	if e, ok := effectOf(p.Step(p.nowMs, []Event{{Kind: EventLinkUp, Link: 8}}), EffectClose); !ok || e.Link != 8 {
		t.Error("a follower takes a learner in at its quorum port")
	}
	e, ok := effectOf(p.Step(p.nowMs, []Event{
		{Kind: EventLinkUp, Link: 9, Observers: true},
		{Kind: EventReceive, Link: 9, Message: &Message{Kind: KindFollowerInfo, Hello: Hello{Server: 2}}},
	}), EffectClose)
	if !ok || e.Link != 9 {
		t.Error("an observer master takes a participant in")
	}
	lead := New(Options{ID: 3, Masters: true, TickMs: 200, InitMs: 2000, SyncMs: 1000}, Config{Quorum: quorum.NewMajority(1, 2, 3)}, Stored{})
	lead.Step(0, []Event{{Kind: EventElected, Server: 3}})
	if e, ok := effectOf(lead.Step(0, []Event{{Kind: EventLinkUp, Link: 7, Observers: true}}), EffectClose); !ok || e.Link != 7 {
		t.Error("a leader takes an observer in at its port for observers")
	}
	without := New(Options{ID: 1, TickMs: 200, InitMs: 2000, SyncMs: 1000}, Config{Quorum: quorum.NewMajority(1, 2, 3)}, Stored{})
	if without.becomeMaster(); without.master != nil {
		t.Error("a follower serves observers, and was not told to")
	}
}

// An observer's own configuration is the one that is committed: it learns of the next one with
// INFORMANDACTIVATE.
func TestMasterTellsOfCommittedConfigurationsAlone(t *testing.T) {
	p := following(t)
	p.config.Text = []byte("old")
	p.Step(p.nowMs, []Event{{Kind: EventConfig, Config: &Config{Version: int64(zk.MakeZxid(5, 3)), Quorum: quorum.NewMajority(1, 2), Text: []byte("new")}}})
	if got := string(p.toldConfig().Text); got != "old" {
		t.Errorf("it tells of %q, which is proposed", got)
	}
	p.Step(p.nowMs, []Event{{Kind: EventReceive, Link: 1, Message: &Message{Kind: KindCommit, Zxid: zk.MakeZxid(5, 3)}}})
	if got := string(p.toldConfig().Text); got != "new" {
		t.Errorf("it tells of %q, and the next one is committed", got)
	}
}

func TestMasterEndsItsObserversWithItsRole(t *testing.T) {
	p := following(t)
	comes(p, 9, Hello{Server: 4}, zk.MakeZxid(5, 2))
	if all := p.Learners(); len(all) != 1 || all[0].Server != 4 || all[0].Stage != LearnerServing {
		t.Fatalf("it serves %+v", all)
	}
	closed := map[LinkID]bool{}
	for _, e := range p.Step(p.nowMs, []Event{{Kind: EventStop}}) {
		closed[e.Link] = closed[e.Link] || e.Kind == EffectClose
	}
	if !closed[9] || p.master != nil || p.Learners() != nil {
		t.Error("the role has ended, and its observer's link has not")
	}
}

func TestMasterDropsSilentObservers(t *testing.T) {
	p := following(t)
	comes(p, 9, Hello{Server: 4}, zk.MakeZxid(5, 2))
	said := func(ms int64, events ...Event) []Effect {
		events = append(events, Event{Kind: EventReceive, Link: 1, Message: &Message{Kind: KindPing}})
		return p.Step(p.nowMs+ms, events)
	}
	for range 20 { // each observer has answered the ping before
		said(100, Event{Kind: EventReceive, Link: 9, Message: &Message{Kind: KindPing}})
	}
	if len(p.Learners()) != 1 {
		t.Fatal("an observer that answers was dropped")
	}
	if at, ok := p.WakeMs(); !ok || at > p.nowMs+100 {
		t.Errorf("a master wants a step at %d, %v, and pings every 100 ms", at, ok)
	}
	for range 12 {
		said(100)
	}
	if len(p.Learners()) != 0 {
		t.Error("an observer that is silent was not dropped")
	}
}

// A commit on a cumulative link is passed on as one INFORM for each record, in order.
func TestMasterInformsOfEachRecordOfACommit(t *testing.T) {
	p := following(t)
	p.learn.cumulative = true
	comes(p, 7, Hello{Server: 9}, zk.MakeZxid(5, 2))
	p.Step(p.nowMs, []Event{{Kind: EventReceive, Link: 1, Message: &Message{Kind: KindProposal, Zxid: zk.MakeZxid(5, 4)}}})
	var told []string
	for _, e := range p.Step(p.nowMs, []Event{{Kind: EventReceive, Link: 1, Message: &Message{Kind: KindCommit, Zxid: zk.MakeZxid(5, 4)}}}) {
		if e.Kind == EffectSend {
			told = append(told, e.Message.String())
		}
	}
	if !slices.Equal(told, []string{"INFORM 5.3", "INFORM 5.4"}) {
		t.Errorf("the observer is told %q", told)
	}
}
