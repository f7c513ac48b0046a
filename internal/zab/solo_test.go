package zab_test

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// solo drives one peer by hand: server 1 of an ensemble of three.
type solo struct {
	t      *testing.T
	p      *zab.Peer
	nowMs  int64
	ticket zab.Ticket
}

func newSolo(t *testing.T, stored zab.Stored) *solo {
	return newSoloOf(t, zab.Options{}, stored)
}

func newSoloOf(t *testing.T, o zab.Options, stored zab.Stored) *solo {
	o.ID, o.TickMs, o.InitMs = 1, 200, initMs
	if o.SyncMs == 0 {
		o.SyncMs = 1000
	}
	return &solo{t: t, p: zab.New(o, zab.Config{Quorum: quorum.NewMajority(1, 2, 3)}, stored)}
}

// stored is a disk with these records, in the epochs of the last.
func stored(zxids ...zk.Zxid) zab.Stored {
	s := zab.Stored{Recent: records(zxids...)}
	if n := len(zxids); n > 0 {
		s.Last = zxids[n-1]
		s.Accepted, s.Current = s.Last.Epoch(), s.Last.Epoch()
	}
	return s
}

func records(zxids ...zk.Zxid) []zab.Record {
	var all []zab.Record
	for _, z := range zxids {
		all = append(all, zab.Record{Zxid: z, Payload: []byte(zab.FormatZxid(z))})
	}
	return all
}

func z(epoch, counter uint32) zk.Zxid { return zk.MakeZxid(epoch, counter) }

// step passes events to the peer and returns the effects, one after the other.
func (s *solo) step(events ...zab.Event) string {
	var lines []string
	for _, e := range s.p.Step(s.nowMs, events) {
		s.ticket = max(s.ticket, e.Ticket)
		line := e.String()
		if at := strings.Index(line, " #"); at >= 0 {
			line = line[:at]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

// want steps the peer and compares the effects.
func (s *solo) want(effects string, events ...zab.Event) {
	s.t.Helper()
	if got := s.step(events...); got != effects {
		s.t.Errorf("got  %s\nwant %s", got, effects)
	}
}

func (s *solo) wait(ms int64) zab.Event {
	s.nowMs += ms
	return zab.Event{Kind: zab.EventTick}
}

// initMs is how long an election may take.
const initMs = 2000

// done is the completion of everything that the disk was asked to do so far.
func (s *solo) done() zab.Event { return zab.Event{Kind: zab.EventDone, Ticket: s.ticket} }

func elected(id quorum.ID) zab.Event { return zab.Event{Kind: zab.EventElected, Server: id} }

func up(link zab.LinkID) zab.Event {
	return zab.Event{Kind: zab.EventLinkUp, Link: link, Outgoing: link == toLeader}
}

// toLeader is a learner's own link.
const toLeader zab.LinkID = 100

func on(link zab.LinkID, m zab.Message) zab.Event {
	return zab.Event{Kind: zab.EventReceive, Link: link, Message: &m}
}

// said is a message of the leader that carries only a zxid.
func said(kind zab.Kind, zxid zk.Zxid) zab.Event {
	return on(toLeader, zab.Message{Kind: kind, Zxid: zxid})
}

// hello, ackEpoch and ack are messages of the learner with this id, on the link of the same
// number.
func hello(id int, accepted uint32) zab.Event {
	return on(zab.LinkID(id), zab.Message{
		Kind: zab.KindFollowerInfo, Zxid: z(accepted, 0), Hello: zab.Hello{Server: quorum.ID(id)},
	})
}

func ackEpoch(id int, last zk.Zxid, current int64) zab.Event {
	return on(zab.LinkID(id), zab.Message{Kind: zab.KindAckEpoch, Zxid: last, Epoch: current})
}

func ack(id int, zxid zk.Zxid) zab.Event {
	return on(zab.LinkID(id), zab.Message{Kind: zab.KindAck, Zxid: zxid})
}

func propose(zxids ...zk.Zxid) []zab.Event {
	var all []zab.Event
	for _, r := range records(zxids...) {
		all = append(all, zab.Event{Kind: zab.EventPropose, Record: r})
	}
	return all
}

// follows brings the peer to the point where it has sent its ACKEPOCH to the
// leader of an epoch.
func (s *solo) follows(epoch uint32) {
	s.step(elected(2))
	s.step(up(toLeader))
	s.step(said(zab.KindLeaderInfo, z(epoch, 0)))
	s.step(s.done())
}

// serves brings the peer to broadcast as a follower.
func (s *solo) serves(epoch uint32) {
	s.follows(epoch)
	s.step(said(zab.KindDiff, s.p.Last()), said(zab.KindNewLeader, z(epoch, 0)))
	s.step(s.done())
	s.step(said(zab.KindUpToDate, zk.NoZxid))
}

// leads brings the peer to broadcast as leader, with server 2 as its follower.
func (s *solo) leads() {
	accepted, current := s.p.Epochs()
	s.step(elected(1), up(2), hello(2, accepted))
	s.step(s.done())
	s.step(ackEpoch(2, s.p.Last(), int64(current)))
	s.step(s.done())
	s.step(ack(2, z(accepted+1, 0)))
}
