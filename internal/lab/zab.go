package lab

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
)

// Times of an ensemble, in milliseconds.
const (
	zabTickMs = 1000
	zabInitMs = 4000
	zabSyncMs = 2000
)

// diskUs is how long a disk takes to complete its operations.
const diskUs = 8_000

// ensemble runs fast leader election and Zab: a server is a fle.Machine and a zab.Peer.
type ensemble struct {
	w     *World
	ids   quorum.IDs
	disks map[string]*disk
	links zab.LinkID // the last link number that was used
	// shown is the one sequence of transactions that servers have shown to clients.
	// established are the leaders by epoch.
	shown       []zab.Record
	established map[uint32]string
	onePerEpoch *Rule
	agreement   *Rule
	kept        *Rule
}

func newEnsemble(w *World) system {
	return &ensemble{w: w, disks: make(map[string]*disk), established: make(map[uint32]string),
		onePerEpoch: &Rule{ID: "one leader an epoch", Text: "a quorum follows one leader at most in an epoch", Promised: true},
		agreement:   &Rule{ID: "agreement", Text: "all servers show the same transactions in the same order", Promised: true},
		kept:        &Rule{ID: "nothing is lost", Text: "a new leader has each transaction that was ever shown", Promised: true},
	}
}

func (e *ensemble) rules() []*Rule { return []*Rule{e.onePerEpoch, e.agreement, e.kept} }

func (e *ensemble) names(count int) []string {
	var names []string
	for i := range count {
		names = append(names, "s"+strconv.Itoa(i+1))
		e.ids.Add(quorum.ID(i + 1))
	}
	for _, name := range names {
		e.disks[name] = e.newDisk()
	}
	return names
}

// newDisk returns the disk of a server that was never started: it contains the initial
// configuration.
func (e *ensemble) newDisk() *disk { return &disk{configs: configs{members: e.ids}} }

// nameOf returns the name of a server by its number.
func nameOf(id quorum.ID) string { return "s" + strconv.FormatInt(int64(id), 10) }

func idOf(name string) quorum.ID {
	id, _ := strconv.ParseInt(name[1:], 10, 64)
	return quorum.ID(id)
}

// start recovers a server from its disk.
func (e *ensemble) start(s *server) {
	z := &zabServer{ensemble: e, server: s, id: idOf(s.id), disk: e.disks[s.id], conns: make(map[zab.LinkID]*conn)}
	s.part = z
	z.recover()
	z.election = fle.New(fle.Config{ID: z.id, FinalizeMs: 200, ResendMinMs: 300, ResendMaxMs: 2000},
		z.disk.configs.ensembleOf())
	z.look()
}

func (e *ensemble) died(s *server) {
	e.disks[s.id].crash()
	for _, c := range e.connsOf(s) {
		c.reset(nil)
	}
}

func (e *ensemble) wipe(s *server) { e.disks[s.id] = e.newDisk() }

// connsOf returns the connections that end at a server that may be down.
func (e *ensemble) connsOf(s *server) []*conn {
	var found []*conn
	for _, other := range e.w.servers {
		z, alive := other.part.(*zabServer)
		if !alive {
			continue
		}
		for _, link := range z.linkIDs() {
			if c := z.conns[link]; c.from == s || c.to == s {
				found = append(found, c)
			}
		}
	}
	return found
}

func (e *ensemble) do(a Action) (bool, error) {
	args, known := map[string]int{"write": 2, "reconfig": 2, "full": 1, "space": 1}[a.Verb]
	if !known {
		return false, nil
	}
	if len(a.Args) != args {
		return true, fmt.Errorf("%s takes %d arguments", a.Verb, args)
	}
	if s := e.w.find(a.Args[0]); s != nil && args == 1 {
		full := a.Verb == "full"
		e.disks[s.id].full = full
		e.w.note(s, NoteFault, "%s", map[bool]string{true: "its disk is full", false: "its disk has space again"}[full])
		s.hand(func() { s.part.(*zabServer).space(!full) })
		return true, nil
	}
	if a.Verb == "reconfig" {
		return true, e.reconfig(a)
	}
	return true, e.w.with(a, "alive", func(s *server) {
		e.w.note(s, NoteFault, "a client asks it to write %q", a.Args[1])
		s.hand(func() { s.part.(*zabServer).write(a.Args[1]) })
	})
}

// reconfig asks a leader for a different ensemble, given as servers separated by points.
func (e *ensemble) reconfig(a Action) error {
	for name := range strings.SplitSeq(a.Args[1], ".") {
		if _, err := e.w.server(name); err != nil {
			return err
		}
	}
	var refused error
	err := e.w.with(a, "up", func(s *server) {
		s.hand(func() { refused = s.part.(*zabServer).reconfig(membersOf(a.Args[1])) })
		if refused == nil {
			e.w.note(s, NoteFault, "is asked to make %s the ensemble", strings.ReplaceAll(a.Args[1], ".", ", "))
		}
	})
	return errors.Join(err, refused)
}

func (e *ensemble) check() {}

// serves is called when a server begins to show its tree.
func (e *ensemble) serves(z *zabServer, epoch uint32) {
	if z.peer.State() == zab.Leading {
		if other, led := e.established[epoch]; led && other != z.server.id {
			e.w.breaks(e.onePerEpoch, fmt.Sprintf("%s and %s have led epoch %d", other, z.server.id, epoch))
		}
		e.established[epoch] = z.server.id
		older := len(e.shown)
		for older > 0 && e.shown[older-1].Zxid.Epoch() >= epoch {
			older--
		}
		if len(z.tree) < older {
			e.w.breaks(e.kept, fmt.Sprintf("leader %s of epoch %d has %d transactions, %d were shown", z.server.id, epoch, len(z.tree), older))
		}
	}
	for i := range z.tree {
		e.show(z, i)
	}
}

// show compares a transaction of a tree with what was shown.
func (e *ensemble) show(z *zabServer, at int) {
	switch r := z.tree[at]; {
	case at == len(e.shown):
		e.shown = append(e.shown, r)
	case at > len(e.shown) || e.shown[at].Zxid != r.Zxid || string(e.shown[at].Payload) != string(r.Payload):
		e.w.breaks(e.agreement, fmt.Sprintf("%s shows %s at place %d, another server something else", z.server.id, zab.FormatZxid(r.Zxid), at+1))
	}
}
