package server

import (
	"fmt"
	"math/rand/v2"

	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
)

// roles are the role and the ports of each machine, from 1.
type roles [stormMachines + 1]post

// post is the entry of a machine in a configuration: nothing, if it is not a member.
type post struct {
	is byte
	at uint16 // its ports for servers are 2888 and 3888 plus this number
}

const (
	roleOut      = 'x'
	roleVotes    = 'v'
	roleObserves = 'o'
)

func (r roles) String() string {
	text := ""
	for _, p := range r[1:] {
		text += string(p.is)
		if p.at > 0 {
			text += fmt.Sprint(p.at)
		}
	}
	return text
}

func postOf(m *ensemble.Member) post {
	switch {
	case m == nil:
		return post{is: roleOut}
	case m.Observer:
		return post{roleObserves, m.Quorum[0].Port - 2888}
	}
	return post{roleVotes, m.Quorum[0].Port - 2888}
}

func rolesOf(c *ensemble.Config) (r roles) {
	for id := 1; id < len(r); id++ {
		r[id] = postOf(c.Member(quorum.ID(id)))
	}
	return r
}

func (p post) line(id int) string {
	as := "participant"
	if p.is == roleObserves {
		as = "observer"
	}
	host := bubble.Host(id)
	return fmt.Sprintf("server.%d=%s:%d:%d:%s;%s:2181", id, host, 2888+p.at, 3888+p.at, as, host)
}

// lines returns the lines of a configuration.
func (r roles) lines() []string {
	var all []string
	for id, p := range r {
		if id > 0 && p.is != roleOut {
			all = append(all, p.line(id))
		}
	}
	return all
}

// mayBecome reports whether servers accept a change: a quorum of the new participants must
// follow the leader already, and observers do not follow.
func (r roles) mayBecome(next roles) bool {
	votes, follow := 0, 0
	for id, p := range next {
		if p.is == roleVotes {
			votes++
			if r[id].is != roleObserves {
				follow++
			}
		}
	}
	return votes >= 3 && follow > votes/2
}

// voting draws one of the servers that vote.
func (r roles) voting(random *rand.Rand) int {
	for {
		if id := 1 + random.IntN(stormMachines); r[id].is == roleVotes {
			return id
		}
	}
}

// steps draws a change of some roles and ports, at once or by way of leaving; nil if servers
// refuse it. One server keeps its vote and its ports: a server that is away while all others
// move finds nobody.
func (r roles) steps(random *rand.Rand, anchor int) []roles {
	by, next, leaves, moves := r, r, random.IntN(2) == 0, random.IntN(3) == 0
	for range 1 + random.IntN(3) {
		id := 1 + random.IntN(stormMachines)
		next[id] = post{is: []byte{roleOut, roleVotes, roleObserves}[random.IntN(3)], at: r[id].at}
		by[id] = next[id]
		if leaves {
			by[id].is = roleOut
		}
	}
	for id := 1; id <= stormMachines; id++ {
		if moves && random.IntN(2) == 0 || r[id].is == roleOut {
			next[id].at = uint16(random.IntN(4))
			by[id].at = next[id].at
		}
		for _, p := range []*post{&by[id], &next[id]} {
			if p.is == roleOut {
				p.at = 0
			}
		}
	}
	by[anchor], next[anchor] = r[anchor], r[anchor]
	switch {
	case next == r || !r.mayBecome(by) || !by.mayBecome(next):
		return nil
	case by == next || by == r:
		return []roles{next}
	}
	return []roles{by, next}
}
