package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// zabServer is one server of an ensemble.
type zabServer struct {
	ensemble *ensemble
	server   *server
	id       quorum.ID
	election *fle.Machine
	peer     *zab.Peer
	disk     *disk
	tree     []zab.Record
	serving  bool
	needSnap bool
	loading  zab.LinkID // the link on which a snapshot is expected
	arrived  map[zab.LinkID][]zab.Record
	conns    map[zab.LinkID]*conn
	asked    []string // clients' writes in order, not yet answered
	inbox    []zab.Event
	stepping bool
}

// recover creates the peer from the disk: the tree contains the whole log.
func (z *zabServer) recover() {
	d := z.disk
	z.tree, z.serving = slices.Clone(d.state()), false
	z.peer = zab.New(zab.Options{ID: z.id, TickMs: zabTickMs, InitMs: zabInitMs, SyncMs: zabSyncMs},
		zabConfig(d.configs.inForce, d.configs.members),
		zab.Stored{Accepted: d.accepted, Current: max(d.current, min(d.accepted, d.last().Epoch())), Last: d.last(),
			Recent: slices.Clone(d.log), NeedSnapshot: z.needSnap})
	z.needSnap = false
	d.configs.reload(z.tree)
	if c := d.configs; c.next != 0 {
		config := zabConfig(c.next, c.nextMembers)
		z.peer.Step(z.server.nowMs(), []zab.Event{{Kind: zab.EventConfig, Config: &config}})
	}
	if d.full {
		z.push(zab.Event{Kind: zab.EventSpace})
	}
}

func (z *zabServer) note(kind NoteKind, format string, args ...any) {
	z.ensemble.w.note(z.server, kind, format, args...)
}

// look begins an election. A server with a full disk does not offer itself as leader.
func (z *zabServer) look() {
	_, current := z.peer.Epochs()
	last := z.peer.Last()
	if z.disk.full {
		last = zk.NoZxid
	}
	z.note(NoteRole, "looks for a leader; its last transaction is %s", zab.FormatZxid(z.peer.Last()))
	z.vote(fle.Look{Zxid: last, Epoch: int64(current)})
}

// space tells the peer whether its disk has space. A looking server changes its vote
// accordingly.
func (z *zabServer) space(has bool) {
	looked := z.peer.Quiet()
	z.push(zab.Event{Kind: zab.EventSpace, OK: has})
	if looked {
		z.look()
	}
	z.turnDisk()
}

// vote gives an event to the election.
func (z *zabServer) vote(event fle.Event) {
	var elected *fle.Elected
	var adopt *fle.Adopt
	var learned *fle.Learned
	for _, effect := range slices.Clone(z.election.Step(z.server.nowMs(), event)) {
		switch e := effect.(type) {
		case fle.Send:
			if to := z.ensemble.w.find(nameOf(e.To)); to != nil {
				z.server.send(to, strings.TrimSpace("vote "+z.voteFor(e.Notification.Leader)), voteText(e.Notification), e.Notification)
			}
		case fle.Elected:
			elected = &e
		case fle.Doubt:
			z.push(zab.Event{Kind: zab.EventStop})
		case fle.Adopt:
			adopt = &e
		case fle.Learned:
			learned = &e
		}
	}
	if adopt != nil {
		z.adopt(*adopt)
	}
	if learned != nil {
		z.learn(*learned)
	}
	if elected != nil {
		z.note(NoteRole, "has elected %s in round %d: for it are %s", nameOf(elected.Leader), elected.Round,
			strings.ReplaceAll(listOf(z.election.Supporters()), ".", ", "))
		z.push(zab.Event{Kind: zab.EventElected, Server: elected.Leader, Epoch: elected.Epoch, Record: zab.Record{Zxid: elected.Zxid}})
	}
}

// voteFor returns the name of the server that a vote is for, "" for none.
func (z *zabServer) voteFor(id quorum.ID) string {
	if s := z.ensemble.w.find(nameOf(id)); s != nil {
		return s.id
	}
	return ""
}

func voteText(n fle.Notification) string {
	return fmt.Sprintf("%v: round %d, for %s with %s of epoch %d", n.State, n.Round, nameOf(n.Leader), zab.FormatZxid(max(n.Zxid, 0)), max(n.Vote.Epoch, 0))
}

// push gives an event to the peer, and handles everything that follows.
func (z *zabServer) push(e zab.Event) {
	z.inbox = append(z.inbox, e)
	if z.stepping {
		return
	}
	z.stepping = true
	for len(z.inbox) > 0 {
		batch := z.inbox
		z.inbox = nil
		peer := z.peer
		for _, effect := range slices.Clone(peer.Step(z.server.nowMs(), batch)) {
			if z.peer == peer { // else it was recovered from its disk meanwhile
				z.carryOut(&effect)
			}
		}
	}
	z.stepping = false
}

func (z *zabServer) tick() {
	if wakeMs, wakes := z.election.WakeMs(); wakes && wakeMs <= z.server.nowMs() {
		z.vote(fle.Tick{})
	}
	z.push(zab.Event{Kind: zab.EventTick})
}

func (z *zabServer) wakeMs() (int64, bool) {
	a, wakesA := z.election.WakeMs()
	b, wakesB := z.peer.WakeMs()
	switch {
	case wakesA && wakesB:
		return min(a, b), true
	case wakesA:
		return a, true
	}
	return b, wakesB
}

// receive handles a vote, or a frame of a connection.
func (z *zabServer) receive(from *server, payload any) {
	if n, vote := payload.(fle.Notification); vote {
		z.vote(fle.Received{From: idOf(from.id), Notification: n})
	}
}

// write submits a client's value: to this server if it leads, to its leader if it follows.
func (z *zabServer) write(text string) {
	if !z.serving {
		z.note(NoteState, "has no leader: the client is told to try again")
		return
	}
	z.asked = append(z.asked, text)
	if z.peer.State() == zab.Leading {
		z.propose(text)
		return
	}
	z.push(zab.Event{Kind: zab.EventForward, Request: &zab.Request{Body: []byte(text)}})
}

func (z *zabServer) propose(text string) {
	if z.serving && z.peer.State() == zab.Leading {
		z.push(zab.Event{Kind: zab.EventPropose, Record: zab.Record{Zxid: z.peer.NextZxid(), Payload: []byte(text)}})
	}
}

// carryOut carries out an effect of the peer.
func (z *zabServer) carryOut(e *zab.Effect) {
	switch e.Kind {
	case zab.EffectAppend, zab.EffectSync, zab.EffectSetAccepted, zab.EffectSetCurrent, zab.EffectTruncate:
		z.store(operation{Effect: *e})
		if e.Kind == zab.EffectAppend {
			z.expect(e.Record)
		}
	case zab.EffectSaveSnapshot:
		z.store(operation{*e, slices.Clone(z.tree)})
	case zab.EffectSend:
		if c := z.conns[e.Link]; c != nil {
			message := e.Message
			c.send(z.server, frame{message: &message})
		}
	case zab.EffectClose:
		if c := z.conns[e.Link]; c != nil {
			c.send(z.server, frame{end: true})
			delete(z.conns, e.Link)
		}
	case zab.EffectConnect:
		z.connect(e.Server)
	case zab.EffectSendSnapshot:
		if c := z.conns[e.Link]; c != nil {
			c.send(z.server, frame{isTree: true, tree: slices.Clone(z.tree)})
		}
	case zab.EffectLoadSnapshot:
		z.loading, z.tree = e.Link, nil
		if tree, here := z.arrived[e.Link]; here {
			z.takeTree(e.Link, tree)
		}
	case zab.EffectReadLog:
		z.readLog(e)
	default:
		z.carryOutForClients(e)
	}
}

// carryOutForClients carries out effects that concern the tree, the clients and the role.
func (z *zabServer) carryOutForClients(e *zab.Effect) {
	switch e.Kind {
	case zab.EffectDeliver:
		z.deliver(e.Record)
	case zab.EffectServe:
		z.serving = true
		if z.peer.State() == zab.Leading {
			z.note(NoteRole, "leads in epoch %d: a quorum has its history", e.Epoch)
		} else {
			z.note(NoteRole, "follows in epoch %d, and serves clients", e.Epoch)
		}
		z.ensemble.serves(z, e.Epoch)
		z.activateLogged()
		z.vote(fle.Synced{Epoch: int64(e.Epoch)})
	case zab.EffectActivate:
		if c := z.disk.configs; c.next == e.Zxid {
			z.activate(c.next, c.nextMembers)
		}
	case zab.EffectLeave:
		z.note(NoteRole, "leaves its role: %v", e.Reason)
		z.serving, z.loading, z.asked = false, 0, nil
		z.vote(fle.Left{})
		if e.Reload {
			z.needSnap = e.Reason == zab.ReasonCannotTruncate
			z.disk.finish()
			for _, link := range z.linkIDs() {
				z.conns[link].reset(z.server)
			}
			z.inbox = nil
			z.recover()
			z.look()
		}
	case zab.EffectLook:
		z.look()
	case zab.EffectRequest:
		z.propose(string(e.Request.Body))
	}
}

// deliver applies a transaction, and answers the client if it waits on this server.
func (z *zabServer) deliver(r zab.Record) {
	if n := len(z.tree); n > 0 && z.tree[n-1].Zxid >= r.Zxid {
		return // the snapshot contained it
	}
	z.tree = append(z.tree, r)
	answered := ""
	if i := slices.Index(z.asked, string(r.Payload)); z.serving && i >= 0 {
		z.asked = slices.Delete(z.asked, i, i+1)
		answered = "; its client is told that it is written"
	}
	z.note(NoteState, "shows %s %q%s", zab.FormatZxid(r.Zxid), r.Payload, answered)
	if z.serving {
		z.ensemble.show(z, len(z.tree)-1)
	}
}

func (z *zabServer) takeTree(link zab.LinkID, tree []zab.Record) {
	if z.loading == link {
		z.tree, z.loading, z.arrived = slices.Clone(tree), 0, nil
		z.disk.configs.reload(z.tree)
		z.vote(fle.Reconfigured{Ensemble: z.disk.configs.ensembleOf()})
		return
	}
	z.arrived = map[zab.LinkID][]zab.Record{link: tree} // the peer has not processed the SNAP message yet
}

// readLog returns the log, beginning with the newest record that is not after the requested
// zxid.
func (z *zabServer) readLog(e *zab.Effect) {
	log, first := z.disk.log, 0
	for first+1 < len(log) && log[first+1].Zxid <= e.Zxid {
		first++
	}
	ok := len(log) > 0 && log[first].Zxid <= e.Zxid
	event := zab.Event{Kind: zab.EventLogRead, Link: e.Link, Records: slices.Clone(log[min(first, len(log)):]), OK: ok}
	z.server.after(diskUs, func() { z.push(event) })
}

// logCells is how many transactions of a log are drawn.
const logCells = 8

func (z *zabServer) view(v *Server) {
	state := z.peer.State()
	v.Role = state.String()
	v.Leads = state == zab.Leading && z.serving
	switch {
	case state == zab.Looking:
	case state == zab.Leading:
		v.Leader = v.ID
	default:
		v.Leader = nameOf(z.election.Vote().Leader)
	}
	accepted, current := z.peer.Epochs()
	v.field("epoch", strconv.FormatUint(uint64(current), 10))
	if accepted != current {
		v.field("accepted", strconv.FormatUint(uint64(accepted), 10))
	}
	v.field("zxid", zab.FormatZxid(z.peer.Last()))
	if state == zab.Looking {
		v.Vote = z.voteFor(z.election.Vote().Leader)
		v.field("vote", fmt.Sprintf("%s, round %d", orNobody(v.Vote), z.election.Round()))
		var has []string
		for _, b := range z.election.Votes() {
			v.Votes = append(v.Votes, Cast{nameOf(b.From), nameOf(b.For)})
			has = append(has, nameOf(b.From)+" (for "+nameOf(b.For)+")")
		}
		v.field("has votes of", orNobody(strings.Join(has, ", ")))
	} else {
		v.field("phase", strings.ToLower(z.peer.Phase().String()))
	}
	if z.disk.full {
		v.field("disk", "full")
	}
	c := z.disk.configs
	v.field("ensemble", strings.ReplaceAll(listOf(c.members), ".", " "))
	if c.next != 0 {
		v.field("proposed", strings.ReplaceAll(listOf(c.nextMembers), ".", " "))
	}
	v.Log = []Cell{}
	durable, delivered := z.disk.durable(), z.peer.Delivered()
	log := z.disk.state()
	for _, r := range log[max(0, len(log)-logCells):] {
		v.Log = append(v.Log, Cell{Zxid: zab.FormatZxid(r.Zxid), Text: string(r.Payload), Durable: r.Zxid <= durable, Shown: r.Zxid <= delivered})
	}
}
