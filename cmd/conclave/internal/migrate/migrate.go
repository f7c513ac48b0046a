// Package migrate plans how an ensemble moves from Apache ZooKeeper's servers to
// Conclave's, and back, while it serves.
//
// From the observed states of the servers it derives the next server to replace,
// from their digests whether two servers have the same tree, and from the scripts of
// Apache's servers their settings. It opens no socket, reads no file and starts
// nothing. What always holds:
//
//	migrate-G1  A step stops one server, and the others that serve and can store
//	            writes are still a quorum.
//	migrate-G2  Next depends only on the servers: after any interruption the
//	            same call returns where to continue, and the way back is the
//	            same call with the other kind.
//	migrate-G3  Observers go first, then followers, the leader last: this costs
//	            one election, the minimum.
//
// It does not know how servers are stopped and started.
package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/quorum"
)

// Kind is whose software a server runs.
type Kind string

// The kinds; "" is for a server that does not reveal its version.
const (
	Apache   Kind = "apache"
	Conclave Kind = "conclave"
)

// KindOf returns the kind for the version in a server's answer to srvr.
func KindOf(version string) Kind {
	switch {
	case version == "":
		return ""
	case strings.Contains(version, "-conclave-"):
		return Conclave
	}
	return Apache
}

// Server is the observed state of one server.
type Server struct {
	ID   quorum.ID
	Kind Kind
	Mode string // leader, follower, observer; "" if it serves nobody
	Full bool   // its disk is full: it serves, but stores nothing
}

// Serves reports whether clients get answers.
func (s *Server) Serves() bool {
	return s.Mode == "leader" || s.Mode == "follower" || s.Mode == "observer"
}

// Step is the replacement of one server.
type Step struct {
	Server Server
	Left   int // steps after this one
}

// Refusal is the reason why no step is possible now.
type Refusal struct{ Why, Hint string }

func (r *Refusal) Error() string { return r.Why }

// Next returns the next step towards servers of one kind, nil if all are of that
// kind. set is the quorum of the ensemble. The error is a *Refusal.
func Next(servers []Server, set quorum.Set, to Kind) (*Step, error) {
	var todo []Server
	var storing, full quorum.IDs
	led := false
	for _, s := range servers {
		if s.Mode == "standalone" {
			return nil, &Refusal{"the server is standalone: nobody serves while it is exchanged",
				"stop it, and start the other kind on the same zoo.cfg and directory"}
		}
		led = led || s.Mode == "leader"
		switch {
		case s.Serves() && s.Full:
			full.Add(s.ID)
		case s.Serves():
			storing.Add(s.ID)
		}
		if !s.Serves() || s.Kind != to {
			todo = append(todo, s)
		}
	}
	if len(todo) == 0 {
		return nil, nil
	}
	if !led {
		return nil, &Refusal{"no server leads", "the ensemble must serve before a server is exchanged: `conclave status` shows how its servers are"}
	}
	slices.SortFunc(todo, func(a, b Server) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.ID, b.ID))
	})
	first := todo[0]
	var others quorum.IDs
	for _, s := range servers {
		if s.ID != first.ID && storing.Has(s.ID) {
			others.Add(s.ID)
		}
	}
	if full.Remove(first.ID); !set.Enough(others) && len(full) > 0 {
		return nil, &Refusal{fmt.Sprintf("without server %d those that serve and can write are no quorum: the disk of server %s is full", first.ID, strings.Trim(fmt.Sprint(full), "[]")),
			"make space there, and wait until LAG of `conclave status` is 0, before another one is stopped"}
	}
	if !set.Enough(others) {
		return nil, &Refusal{fmt.Sprintf("without server %d those that serve are no quorum", first.ID),
			"start the servers that are down, and wait until they follow, before another one is stopped"}
	}
	return &Step{Server: first, Left: len(todo) - 1}, nil
}

// rank orders the servers to replace: a server that is down costs nothing.
func rank(s *Server) int {
	return slices.Index([]string{"", "observer", "follower", "leader"}, s.Mode)
}

// Plan returns all remaining steps, in order, provided that each succeeds. The error is a *Refusal.
func Plan(servers []Server, set quorum.Set, to Kind) ([]Step, error) {
	servers = slices.Clone(servers)
	var steps []Step
	for {
		step, err := Next(servers, set, to)
		if step == nil || err != nil {
			return steps, err
		}
		steps = append(steps, *step)
		for i := range servers {
			if s := &servers[i]; s.ID == step.Server.ID {
				if s.Kind = to; s.Mode != "observer" {
					s.Mode = "follower"
				}
			}
		}
		if step.Server.Mode == "leader" { // another one has been elected
			i := slices.IndexFunc(servers, func(s Server) bool { return s.Mode == "follower" })
			servers[i].Mode = "leader"
		}
	}
}
