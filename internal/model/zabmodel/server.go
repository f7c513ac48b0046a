package zabmodel

import (
	"fmt"
	"slices"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// server is one server: a part of the model's world.
type server struct {
	ID       quorum.ID
	Peer     *zab.Peer // nil while it is down
	NowMs    int64
	Disk     disk
	Tree     []zab.Record // the tree that it shows
	Serving  bool
	Slow     bool      // other servers may act before its disk has worked
	Dialing  quorum.ID // the leader that it wants a connection to; 0 for none
	Links    map[zab.LinkID]bool
	Loading  zab.LinkID // the link on which a snapshot is expected
	Arrived  map[zab.LinkID][]zab.Record
	NeedSnap bool
	Next     zk.Zxid // the reconfig that is logged and not yet in force
}

// Clock implements model.Clocked.
func (p *server) Clock() int64 { return p.NowMs }

// The events of a server.
type (
	boot    struct{}
	crash   struct{ Done int } // how many disk operations were completed
	elected struct {
		Leader quorum.ID
		Epoch  uint32 // the least epoch of the new leader
		Last   zk.Zxid
	}
	linkUp struct {
		Link     zab.LinkID
		Outgoing bool
	}
	dialFailed struct{}
	diskWorks  struct{}
	diskSlow   struct{}
	jump       struct{}
	propose    struct{ Number int }
	reconfig   struct{}
	adopt      struct{ Version zk.Zxid }
)

// frame is what travels on a connection: a message, a tree, or the end.
type frame struct {
	Link    zab.LinkID // the link at the receiver
	Message *zab.Message
	IsTree  bool
	Tree    []zab.Record
	End     bool
}

// sent is a frame that leaves on a link of the sender.
type sent struct {
	Link zab.LinkID
	frame
}

// note is a line of the trace.
type note string

// incoming and outgoing return the links of a connection at the leader and at the learner.
func incoming(learner quorum.ID, gen int) zab.LinkID { return zab.LinkID(100 + 10*gen + int(learner)) }
func outgoing(leader quorum.ID, gen int) zab.LinkID  { return zab.LinkID(200 + 10*gen + int(leader)) }

// turn is the processing of one event by a server.
type turn struct {
	*system
	*server
	out  []any
	todo []zab.Event
}

func (s *system) step(part, event any) []any {
	if o, ok := part.(*order); ok {
		o.see(event.(shown))
		return nil
	}
	t := &turn{system: s, server: part.(*server)}
	t.take(event)
	for len(t.todo) > 0 {
		batch := t.todo
		t.todo = nil
		t.run(batch)
	}
	return t.out
}

// boot creates a peer from the content of the disk.
func (s *system) boot(p *server) {
	d := &p.Disk
	p.Tree, p.Serving, p.Dialing, p.Loading, p.Arrived = d.state(), false, 0, 0, nil
	p.Links = map[zab.LinkID]bool{}
	p.Peer = zab.New(zab.Options{ID: p.ID, TickMs: tickMs, InitMs: initMs, SyncMs: syncMs, OneByOne: s.scope.OneByOne}, *s.config(d.InForce),
		zab.Stored{Accepted: d.Accepted, Current: max(d.Current, min(d.Accepted, d.last().Epoch())), Last: d.last(),
			Recent: slices.Clone(d.Log), NeedSnapshot: p.NeedSnap})
	p.Next = 0
	if version := changeIn(p.Tree); version > d.InForce {
		p.Next = version
		p.Peer.Step(p.NowMs, []zab.Event{{Kind: zab.EventConfig, Config: s.config(version)}})
	}
}

// changeIn returns the version of the reconfig in a history, 0 for none.
func changeIn(tree []zab.Record) zk.Zxid {
	for _, r := range tree {
		if string(r.Payload) == string(change) {
			return r.Zxid
		}
	}
	return 0
}

// take handles one event.
func (t *turn) take(event any) {
	switch e := event.(type) {
	case boot:
		t.boot(t.server)
	case crash:
		t.Disk.crash(e.Done)
		t.Peer, t.Tree, t.Serving, t.Slow, t.Dialing, t.Loading = nil, nil, false, false, 0, 0
		t.Links, t.Arrived, t.NeedSnap, t.Next = nil, nil, false, 0
	case elected:
		t.push(zab.Event{Kind: zab.EventElected, Server: e.Leader, Epoch: int64(e.Epoch), Record: zab.Record{Zxid: e.Last}})
	case linkUp:
		t.Dialing = 0
		if !e.Outgoing {
			t.Dialing = t.server.Dialing
		}
		t.Links[e.Link] = true
		t.push(zab.Event{Kind: zab.EventLinkUp, Link: e.Link, Outgoing: e.Outgoing})
	case dialFailed:
		t.Dialing = 0
		t.push(zab.Event{Kind: zab.EventLinkDown})
	case frame:
		t.arrive(e)
	case diskWorks:
		t.diskWorks()
	case diskSlow:
		t.Slow = true
	case jump:
		t.NowMs += jumpMs
		t.push(zab.Event{Kind: zab.EventTick})
	case propose:
		t.push(zab.Event{Kind: zab.EventPropose, Record: zab.Record{Zxid: t.Peer.NextZxid(), Payload: []byte{byte(e.Number)}}})
	case reconfig:
		zxid := t.Peer.NextZxid()
		t.push(zab.Event{Kind: zab.EventPropose, Record: zab.Record{Zxid: zxid, Payload: change}, Config: t.config(zxid)})
	case adopt:
		t.activate(e.Version)
	default:
		panic(fmt.Sprintf("zabmodel: event %T", event))
	}
}

func (t *turn) push(e zab.Event) { t.todo = append(t.todo, e) }

func (t *turn) note(format string, args ...any) {
	t.out = append(t.out, note(fmt.Sprintf(format, args...)))
}

// arrive handles a frame.
func (t *turn) arrive(f frame) {
	switch {
	case !t.Links[f.Link]:
	case f.End:
		delete(t.Links, f.Link)
		t.push(zab.Event{Kind: zab.EventLinkDown, Link: f.Link})
	case f.IsTree && t.Loading == f.Link:
		t.takeTree(f.Tree)
	case f.IsTree:
		t.Arrived = map[zab.LinkID][]zab.Record{f.Link: f.Tree}
	default:
		m := t.scope.Mutant.message(*f.Message)
		t.push(zab.Event{Kind: zab.EventReceive, Link: f.Link, Message: &m})
	}
}

func (t *turn) takeTree(tree []zab.Record) {
	t.Tree, t.Loading, t.Arrived = tree, 0, nil
	t.noteChange(changeIn(tree))
}

// diskWorks completes all operations up to the next ticket, and reports the ticket.
func (t *turn) diskWorks() {
	d := &t.Disk
	for len(d.Pending) > 0 {
		op := d.Pending[0]
		d.Pending = d.Pending[1:]
		ok := d.do(op)
		if op.Kind == zab.EffectTruncate && ok && t.scope.Mutant != TreeKept {
			t.Tree = d.state()
		}
		switch {
		case op.Ticket == 0:
			continue
		case !ok && t.scope.Mutant != FailureDropped:
			t.push(zab.Event{Kind: zab.EventFailed, Ticket: op.Ticket})
		case ok && t.scope.Mutant.tells(op):
			t.push(zab.Event{Kind: zab.EventDone, Ticket: op.Ticket})
		}
		break
	}
	t.Slow = t.Slow && len(d.Pending) > 0
}

// run steps the peer and carries out the effects.
func (t *turn) run(batch []zab.Event) {
	if t.Peer == nil {
		return
	}
	undo := t.scope.Mutant.around(t.Peer)
	effects := slices.Clone(t.Peer.Step(t.NowMs, batch))
	undo()
	for i := range effects {
		if e := &effects[i]; t.carryOut(e) {
			return // the peer was replaced
		}
	}
}

// carryOut carries out an effect. It returns true if the peer was discarded.
func (t *turn) carryOut(e *zab.Effect) bool {
	if e.Kind != zab.EffectSend {
		t.note("%s", e.String())
	}
	switch e.Kind {
	case zab.EffectAppend, zab.EffectSync, zab.EffectSetAccepted, zab.EffectSetCurrent, zab.EffectTruncate, zab.EffectSaveSnapshot:
		t.store(e)
	case zab.EffectSend:
		t.checkSend(&e.Message)
		m := e.Message
		t.send(e.Link, frame{Message: &m})
	case zab.EffectClose:
		t.close(e.Link)
	case zab.EffectConnect:
		t.Dialing = e.Server
	case zab.EffectSendSnapshot:
		t.send(e.Link, frame{IsTree: true, Tree: slices.Clone(t.Tree)})
	case zab.EffectLoadSnapshot:
		t.Loading, t.Tree = e.Link, nil
		if tree, here := t.Arrived[e.Link]; here {
			t.takeTree(tree)
		}
	case zab.EffectReadLog:
		t.push(t.readLog(e))
	case zab.EffectDeliver:
		if n := len(t.Tree); n == 0 || t.Tree[n-1].Zxid < e.Record.Zxid { // else the snapshot contained it
			t.Tree = append(t.Tree, e.Record)
			if t.Serving {
				t.show(0)
			}
		}
	case zab.EffectServe:
		t.Serving = true
		t.show(e.Epoch)
		if t.Peer.State() != zab.Leading {
			t.activate(changeIn(t.Tree))
		}
	case zab.EffectActivate:
		t.activate(e.Zxid)
	case zab.EffectLeave:
		return t.leave(e)
	}
	return false
}

func (t *turn) store(e *zab.Effect) {
	op := operation{Kind: e.Kind, Ticket: e.Ticket, Epoch: e.Epoch, Zxid: e.Zxid, Record: e.Record}
	if e.Kind == zab.EffectSaveSnapshot {
		op.Tree = slices.Clone(t.Tree)
	}
	t.scope.Mutant.put(t, op)
	if e.Kind == zab.EffectAppend && string(e.Record.Payload) == string(change) {
		t.noteChange(e.Record.Zxid)
	}
}

// noteChange notes a reconfig that is in the log: from now on its quorum counts.
func (t *turn) noteChange(version zk.Zxid) {
	if version <= max(t.Disk.InForce, t.Next) {
		return
	}
	t.Next = version
	if t.Peer.State() != zab.Leading {
		t.push(zab.Event{Kind: zab.EventConfig, Config: t.config(version)})
	}
}

// activate puts a reconfig in force.
func (t *turn) activate(version zk.Zxid) {
	if version <= t.Disk.InForce {
		return
	}
	t.Disk.InForce, t.Next = version, 0
	t.push(zab.Event{Kind: zab.EventConfig, OK: true, Config: t.config(version)})
}

func (t *turn) send(link zab.LinkID, f frame) {
	if t.Links[link] {
		t.out = append(t.out, sent{link, f})
	}
}

// close closes a connection after everything that was sent.
func (t *turn) close(link zab.LinkID) {
	t.send(link, frame{End: true})
	delete(t.Links, link)
}

func (t *turn) show(epoch uint32) {
	t.out = append(t.out, shown{t.ID, epoch, t.Peer.State() == zab.Leading, slices.Clone(t.Tree)})
}

// readLog answers ReadLog as a store would.
func (t *turn) readLog(e *zab.Effect) zab.Event {
	log, first := t.Disk.Log, 0
	for first+1 < len(log) && log[first+1].Zxid <= e.Zxid {
		first++
	}
	ok := len(log) > 0 && log[first].Zxid <= e.Zxid
	return zab.Event{Kind: zab.EventLogRead, Link: e.Link, Records: slices.Clone(log[first:]), OK: ok}
}

// leave ends a role. With Reload, the server recovers from its disk once the disk has
// nothing pending.
func (t *turn) leave(e *zab.Effect) bool {
	t.Serving, t.Dialing, t.Loading = false, 0, 0
	if !e.Reload {
		return false
	}
	t.NeedSnap = e.Reason == zab.ReasonCannotTruncate
	for _, op := range t.Disk.Pending {
		t.Disk.do(op)
	}
	t.Disk.Pending = nil
	for _, link := range sortedLinks(t.Links) {
		t.close(link)
	}
	t.todo = nil
	tree := t.Tree
	t.boot(t.server)
	if t.scope.Mutant == TreeKept {
		t.Tree = tree
	}
	return true
}

func sortedLinks(links map[zab.LinkID]bool) []zab.LinkID {
	var all []zab.LinkID
	for link := range links {
		all = append(all, link)
	}
	slices.Sort(all)
	return all
}

// checkSend checks what must be on disk before a message leaves. It checks nothing for a
// mutant, which must be found by its effect on clients.
func (t *turn) checkSend(m *zab.Message) {
	d, epoch := &t.Disk, m.Zxid.Epoch()
	switch {
	case t.scope.Mutant != None:
	case m.Kind == zab.KindAck && m.Zxid.Counter() != 0:
		durable := disk{Base: d.Base, Log: d.Log[:d.Written]}
		must(durable.last() >= m.Zxid, "Z5: a proposal is acknowledged before it is durable")
	case m.Kind == zab.KindAck:
		must(d.Current == epoch, "Z3: NEWLEADER is acknowledged before its epoch is durable")
	case m.Kind == zab.KindLeaderInfo:
		must(d.Accepted >= epoch, "Z2: an epoch is offered before it is durable")
	}
}
