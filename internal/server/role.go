package server

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// Mode is a server's mode as its clients see it, named as in ZooKeeper.
type Mode string

// The modes. A server that is looking for a leader, or is not synchronized with it yet, serves
// nobody.
const (
	ModeLooking    Mode = "looking"
	ModeStandalone Mode = "standalone"
	ModeLeader     Mode = "leader"
	ModeFollower   Mode = "follower"
	ModeObserver   Mode = "observer"
	ModeReadOnly   Mode = "read-only" // looking, but clients that accept it may read
)

// Role is a server's role in its ensemble.
type Role struct {
	Mode   Mode
	Epoch  uint32    // the established epoch; 0 while looking
	Leader quorum.ID // 0 while looking
}

// Sizes are the last, the smallest and the largest of some sizes in bytes, -1 before the first.
type Sizes struct{ Last, Min, Max int }

// place is the server's role as the loop last saw it.
type place struct {
	mu        sync.Mutex
	role      Role
	sinceMs   int64
	proposals proposalSizes
	told      map[string]int64 // when each attempt to get a role was last logged; of the loop
}

type proposalSizes struct {
	mu  sync.Mutex
	now Sizes
	any bool
}

func (p *proposalSizes) note(bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.any {
		p.now, p.any = Sizes{bytes, bytes, bytes}, true
		return
	}
	p.now = Sizes{bytes, min(bytes, p.now.Min), max(bytes, p.now.Max)}
}

func (p *proposalSizes) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.any = false
}

func (p *proposalSizes) report() Sizes {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.any {
		return Sizes{-1, -1, -1}
	}
	return p.now
}

// role returns the server's role and how long it has had it.
func (s *Server) role() (Role, time.Duration) {
	s.place.mu.Lock()
	defer s.place.mu.Unlock()
	return s.place.current(), time.Duration(s.monoMs()-s.place.sinceMs) * time.Millisecond
}

// current returns the role; before the first step the server is looking. It is called with mu
// held.
func (p *place) current() Role {
	if p.role.Mode == "" {
		return Role{Mode: ModeLooking}
	}
	return p.role
}

// Role returns the server's role.
func (s *Server) Role() Role {
	role, _ := s.role()
	return role
}

// ElectionLog returns the newest elections of the ensemble as this server saw them, the oldest
// first. Like Status it waits until Run is running.
func (s *Server) ElectionLog() (all []replica.ElectionEntry) {
	s.inspect(func(r *replica.Replica) { all = r.ElectionLog() })
	return all
}

// noteStep records what a step has changed in the role and the tree. The loop calls it.
func (s *Server) noteStep(effects *replica.Effects) {
	if len(effects.Left) > 0 {
		s.snaps.roleEnded()
	}
	if p := s.replica.Peer(); s.cfg.Ensemble != nil {
		s.meters.noteProgress(p.State(), p.Phase(), s.replica.Elections(), s.loopMs)
	}
	if n := int64(s.replica.Tree().LongestData()); n != s.longestData.Load() {
		s.longestData.Store(n)
	}
	s.leads.Store(s.replica.Leads())
	s.serves.Store(s.replica.Serving())
	role := roleOf(s.replica, s.cfg.ID)
	s.place.mu.Lock()
	before := s.place.current()
	if role != before {
		s.meters.noteRole(before.Mode, role.Mode, s.loopMs)
		s.place.role, s.place.sinceMs = role, s.loopMs
	}
	s.place.mu.Unlock()
	if role == before && len(effects.Left) > 0 {
		s.tellSeldom("no role yet", "reason", reasonsOf(effects.Left))
	}
	if role != before {
		clear(s.place.told)
		if role.Mode == ModeLeader {
			s.place.proposals.reset() // each leader counts its own, as in ZooKeeper
		}
		s.logRole(role, effects.Left)
		if s.peers != nil {
			s.peers.serveObservers(role.Mode == ModeFollower)
		}
		if s.cfg.RoleChanged != nil {
			s.cfg.RoleChanged(role)
		}
	}
	if role.Mode != ModeLeader {
		return
	}
	for i := range effects.Disk {
		if effects.Disk[i].Kind == replica.DiskAppend {
			s.place.proposals.note(len(effects.Disk[i].Payload))
			s.received.sent.propose(effects.Disk[i].Zxid, s.loopMs)
		}
	}
}

// logRole logs the server's new role.
func (s *Server) logRole(role Role, left []zab.Reason) {
	log := s.cfg.Logger
	epoch := slog.Int64("epoch", int64(role.Epoch))
	switch role.Mode {
	case ModeStandalone:
		log.Info("serving", "role", role.Mode)
	case ModeLeader:
		log.Info("serving", "role", role.Mode, epoch)
	case ModeFollower, ModeObserver:
		log.Info("serving", "role", role.Mode, "leader", int64(role.Leader), epoch)
	case ModeReadOnly:
		log.Warn("serving reads only: there is no quorum")
	case ModeLooking:
		log.Warn("not serving: looking for a leader", "reason", reasonsOf(left))
	}
}

// tellSeldom logs a message of a server that tries to get a role. Such messages come as often
// as it is refused, so each line is logged only once a minute.
func (s *Server) tellSeldom(what, key string, value any) {
	line := fmt.Sprint(what, value)
	if at, told := s.place.told[line]; told && s.loopMs-at < time.Minute.Milliseconds() {
		return
	}
	if len(s.place.told) >= 16 {
		clear(s.place.told)
	}
	s.place.told[line] = s.loopMs
	s.cfg.Logger.Info(what, key, value)
}

func reasonsOf(left []zab.Reason) string {
	reasons := make([]string, len(left))
	for i, reason := range left {
		reasons[i] = reason.String()
	}
	return strings.Join(reasons, ", ")
}

// roleOf returns a replica's role.
func roleOf(r *replica.Replica, id quorum.ID) Role {
	leader, known := r.Leader()
	switch {
	case r.ReadOnly():
		return Role{Mode: ModeReadOnly}
	case !r.Serving():
		return Role{Mode: ModeLooking}
	case r.Config() == nil:
		return Role{Mode: ModeStandalone, Epoch: r.Tree().LastZxid().Epoch(), Leader: id}
	case r.Leads():
		return Role{Mode: ModeLeader, Epoch: r.Epoch(), Leader: id}
	}
	role := Role{Mode: ModeFollower, Epoch: r.Epoch()}
	if known {
		role.Leader = leader
	}
	if r.Peer().State() == zab.Observing {
		role.Mode = ModeObserver
	}
	return role
}
