//go:build linux && chaos

package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// askWithin limits one request for a change; after that it is repeated.
const askWithin = 3 * time.Second

// A role is the role of a server in a configuration.
type role string

const (
	out         role = "out"
	participant role = "participant"
	observer    role = "observer"
)

// A plan gives every server a role, by id.
type plan map[int]role

// roles tracks how the configuration changes: one change at a time, each requested in the
// background repeatedly until it is in force.
type roles struct {
	addrs    string
	lines    map[int]map[role]string // lines of the configuration
	first    plan                    // at the start
	planned  plan                    // after the last change
	underWay chan struct{}           // closed when the last change is in force

	mu            sync.Mutex // guards what the background writes
	err           error      // a broken promise
	seen          plan       // in force when last read
	acknowledged  int64      // highest version in an answer to a request
	asked, agreed int
	rejoined      int
	refused       map[string]int
}

func newRoles(e *servers.Ensemble) *roles {
	r := &roles{addrs: e.Addrs(), lines: map[int]map[role]string{}, first: plan{}, refused: map[string]int{}, underWay: make(chan struct{})}
	close(r.underWay)
	for _, m := range e.Members {
		as := m.Observer
		r.lines[m.ID] = map[role]string{}
		m.Observer = true
		r.lines[m.ID][observer] = m.Line()
		m.Observer = false
		r.lines[m.ID][participant] = m.Line()
		m.Observer = as
		r.first[m.ID] = participant
		if as {
			r.first[m.ID] = observer
		}
	}
	r.planned, r.seen = r.first, r.first
	return r
}

func (r *roles) decided() bool {
	select {
	case <-r.underWay:
		return true
	default:
		return false
	}
}

func (p plan) participants() int {
	n := 0
	for _, r := range p {
		if r == participant {
			n++
		}
	}
	return n
}

// mayBecome reports whether servers accept a change from p to next: a quorum of the new
// participants must already follow the leader, and observers do not count as followers.
func (p plan) mayBecome(next plan) bool {
	follow := 0
	for id, r := range next {
		if r == participant && p[id] != observer {
			follow++
		}
	}
	return follow > next.participants()/2
}

func (p plan) String() string {
	ids := map[role][]string{}
	for _, id := range slices.Sorted(maps.Keys(p)) {
		ids[p[id]] = append(ids[p[id]], fmt.Sprint(id))
	}
	return fmt.Sprintf("%s vote, %s observe, %s out", strings.Join(ids[participant], " "), strings.Join(ids[observer], " "), strings.Join(ids[out], " "))
}

// planOf returns the roles of these servers in a configuration.
func planOf(c *ensemble.Config, members []*servers.Member) plan {
	p := plan{}
	for _, m := range members {
		switch of := c.Member(quorum.ID(m.ID)); {
		case of == nil:
			p[m.ID] = out
		case of.Observer:
			p[m.ID] = observer
		default:
			p[m.ID] = participant
		}
	}
	return p
}

func (r *roles) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// ask reads the configuration, and requests what it lacks of a plan. It reports whether it
// lacks nothing. Whatever prevents the change now is solved by asking again: another change
// is in progress, the new servers are not a quorum yet, there is no leader, or no answer.
func (r *roles) ask(ctx context.Context, members []*servers.Member, p plan) bool {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	c, err := client.Dial(ctx, r.addrs, client.Options{Auth: []client.Credential{{Scheme: "digest", Data: []byte(servers.SuperSecret)}}})
	if err != nil {
		return false
	}
	defer c.Close()
	now, err := configuration(ctx, c)
	if err != nil {
		return false
	}
	is := planOf(now, members)
	if !r.saw(now, is) {
		return false
	}
	if maps.Equal(is, p) {
		return true
	}
	text, _, err := c.Reconfig(ctx, r.missing(now, is, p))
	return r.answered(now, p, members, text, err)
}

// saw records a configuration in force: its version never decreases, chaos-X5.
func (r *roles) saw(now *ensemble.Config, is plan) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Version < r.acknowledged {
		r.err = fmt.Errorf("version %x of the configuration was acknowledged, %x is in force", r.acknowledged, now.Version)
	}
	r.seen = is
	return r.err == nil
}

// answered records the answer to a request, and reports whether the plan is in force.
func (r *roles) answered(before *ensemble.Config, p plan, members []*servers.Member, text []byte, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if err != nil {
		r.refused[err.Error()]++
		return false
	}
	r.agreed++
	now, err := ensemble.Parse(string(text))
	if err != nil || now.Version <= before.Version || !maps.Equal(planOf(now, members), p) {
		r.err = fmt.Errorf("asked for %v, answered with %q, %v", p, text, err)
		return false
	}
	r.seen, r.acknowledged = p, now.Version
	return true
}

// missing returns the request that leads from the current plan to the wanted one. It is
// conditional on the current configuration, so a late request whose answer nobody awaits
// any longer changes nothing.
func (r *roles) missing(now *ensemble.Config, is, want plan) client.Change {
	change := client.Change{Version: now.Version}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		switch {
		case is[id] == want[id]:
		case want[id] == out:
			change.Leaving = append(change.Leaving, fmt.Sprint(id))
		default:
			change.Joining = append(change.Joining, r.lines[id][want[id]])
		}
	}
	return change
}

// configuration returns the configuration in force, at least as new as any acknowledged
// one.
func configuration(ctx context.Context, c *client.Client) (*ensemble.Config, error) {
	if err := c.Sync(ctx, zk.ConfigPath); err != nil {
		return nil, err
	}
	text, _, err := c.GetConfig(ctx)
	if err != nil {
		return nil, err
	}
	return ensemble.Parse(string(text))
}

func (r *roles) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d requests, %d acknowledged, the others %v; %d servers started again while they were out",
		r.asked, r.agreed, r.refused, r.rejoined)
}
