//go:build linux && chaos

package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/test/servers"
)

const (
	// participantsMin is the smallest number of participants in a requested configuration,
	// unless there were fewer at first.
	participantsMin = 3

	// changedMax is how many servers change their role in one change.
	changedMax = 3
)

// reconfig gives some servers other roles.
func (s *storm) reconfig() (string, func() error) {
	if !s.roles.decided() {
		return "", nil
	}
	plans := s.draw()
	s.change(plans...)
	var what []string
	for _, p := range plans {
		what = append(what, p.String())
	}
	return strings.Join(what, ", then "), func() error { return nil }
}

// reconfigKillLeader kills the leader right after the request for a change: before the
// change is proposed, while it is in progress, or when it was just committed.
func (s *storm) reconfigKillLeader() (string, func() error) {
	if !s.roles.decided() {
		return "", nil
	}
	m := s.leader()
	if m == nil {
		return "", nil
	}
	plan, _ := s.reconfig()
	s.sleep(time.Duration(s.random.IntN(40_000)) * time.Microsecond)
	what, heal := s.killOne(m)
	return plan + "; " + what, heal
}

// draw gives one to changedMax servers another role each. A server that changes between
// observer and participant does so at once, or by leaving first.
func (s *storm) draw() []plan {
	all := []role{out, participant, observer}
	least := min(participantsMin, s.roles.first.participants())
	for {
		by, last := maps.Clone(s.roles.planned), maps.Clone(s.roles.planned)
		leaving := s.random.IntN(2) == 0
		for _, i := range s.random.Perm(len(s.e.Members))[:1+s.random.IntN(changedMax)] {
			id := s.e.Members[i].ID
			others := slices.DeleteFunc(slices.Clone(all), func(r role) bool { return r == last[id] })
			last[id] = others[s.random.IntN(len(others))]
			by[id] = last[id]
			if leaving && s.roles.planned[id] != out {
				by[id] = out
			}
		}
		switch {
		case last.participants() < least || by.participants() < least:
		case !s.roles.planned.mayBecome(by) || !by.mayBecome(last):
		case maps.Equal(by, last):
			return []plan{last}
		default:
			return []plan{by, last}
		}
	}
}

// change starts a change in the background.
func (s *storm) change(plans ...plan) {
	r := s.roles
	r.planned, r.underWay = plans[len(plans)-1], make(chan struct{})
	go func() {
		defer close(r.underWay)
		for _, p := range plans {
			for !r.ask(s.ctx, s.e.Members, p) {
				if s.ctx.Err() != nil || r.broken() != nil {
					return
				}
				s.sleep(50 * time.Millisecond)
			}
		}
	}()
}

// inForce returns the members that the configuration names, once the last change is in
// force on all of them: chaos-X5. If the configuration does not change, these are all
// members.
func (s *storm) inForce(ctx context.Context) ([]*servers.Member, error) {
	r := s.roles
	if r == nil {
		return s.e.Members, nil
	}
	select {
	case <-r.underWay:
	case <-ctx.Done():
		return nil, fmt.Errorf("a change of the configuration is not in force: %v", r)
	}
	if err := r.broken(); err != nil {
		return nil, err
	}
	var members []*servers.Member
	var first *ensemble.Config
	for _, m := range s.e.Members {
		if r.planned[m.ID] == out {
			continue
		}
		members = append(members, m)
		c, err := s.configurationOf(ctx, m)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the configuration of server %d: %w", m.ID, err)
		case first == nil:
			first = c
		case c.Text() != first.Text():
			return nil, fmt.Errorf("server %d has the configuration\n%s\nserver %d has\n%s", members[0].ID, first.Text(), m.ID, c.Text())
		}
	}
	if !maps.Equal(planOf(first, s.e.Members), r.planned) || first.Version < r.acknowledged {
		return nil, fmt.Errorf("%v is asked for, version %x acknowledged, in force is\n%s", r.planned, r.acknowledged, first.Text())
	}
	for _, m := range members {
		if err := s.acts(ctx, m, first); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// acts waits until a server says that it uses a configuration: the tree contains the
// configuration whether or not the server uses it.
func (s *storm) acts(ctx context.Context, m *servers.Member, c *ensemble.Config) error {
	for {
		conf, err := servers.FourLetterWord(m.Addr, "conf")
		switch _, text, _ := strings.Cut(conf, "\nmembership: \n"); {
		case err == nil && text == c.Text():
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("server %d has the configuration %x in its tree and goes by another: %v\n%s", m.ID, c.Version, err, conf)
		}
		s.sleep(20 * time.Millisecond)
	}
}

// configurationOf asks one server until it answers.
func (s *storm) configurationOf(ctx context.Context, m *servers.Member) (*ensemble.Config, error) {
	c, err := client.Dial(ctx, m.Addr, client.Options{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for {
		config, err := configuration(ctx, c)
		if err == nil || ctx.Err() != nil {
			return config, err
		}
		s.sleep(20 * time.Millisecond)
	}
}

// launch starts a server. If it was removed before it ended, it needs the lines of the
// members, and its own, as an operator would write them.
func (s *storm) launch(m *servers.Member) error {
	if s.roles != nil {
		listed, err := m.Listed()
		if err != nil {
			return err
		}
		if !listed {
			if err := s.rejoin(m); err != nil {
				return err
			}
		}
	}
	return m.Launch(s.ctx)
}

// rejoin writes the configuration of a removed server: it observes the members.
func (s *storm) rejoin(m *servers.Member) error {
	r := s.roles
	r.mu.Lock()
	defer r.mu.Unlock()
	members := []*servers.Member{m}
	for _, other := range s.e.Members {
		if other != m && r.seen[other.ID] != out {
			members = append(members, other)
		}
		other.Observer = other == m || r.seen[other.ID] != participant
	}
	r.rejoined++
	return m.JoinConfig(members...)
}

// restore adds all servers again, so all are checked in the end. Observers that will become
// participants leave first if too few others follow.
func (s *storm) restore() {
	if s.roles == nil || s.t.Failed() {
		return
	}
	steps, by := []plan{s.roles.first}, maps.Clone(s.roles.planned)
	if !by.mayBecome(s.roles.first) {
		for id, r := range by {
			if r == observer {
				by[id] = out
			}
		}
		steps = []plan{by, s.roles.first}
	}
	s.change(steps...)
	s.calm()
	s.t.Logf("changes of the configuration: %v", s.roles)
}
