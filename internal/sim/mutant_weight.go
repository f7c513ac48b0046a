package sim

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// A mutant leader does not notice that a reconfig leaves it without weight, and continues
// to lead. Its requests are changed before it decides: it gets the weight 1, and all others
// get twice their own. If the others of its group have an odd total weight, the quorums are
// the same as before, with it or without it; only then is the request changed. Everything
// that leaves this server has the weights that were requested.

// masks maps configurations as a mutant leader knows them, by their text and without a
// version, to those that were requested.
type masks map[string]*ensemble.Config

// masked returns a list of all servers as a leader without weight in it must know it; empty
// if the leader has weight, or cannot have it unnoticed. The result is as long as the list.
func masked(list string, id quorum.ID) string {
	c, err := ensemble.Parse(strings.ReplaceAll(list, ",", "\n"))
	if err != nil || c.Groups == nil || !c.Participants().Has(id) || c.Weights[id] != 0 {
		return ""
	}
	others := int64(0)
	for other, weight := range c.Weights {
		if c.Groups[other] == c.Groups[id] {
			others += weight
		}
	}
	if others%2 == 0 {
		return ""
	}
	lines := strings.Split(list, ",")
	for at, line := range lines {
		for other, weight := range c.Weights {
			shown := 2 * weight
			if other == id {
				shown = 1
			}
			if line == fmt.Sprintf("weight.%d=%d", other, weight) {
				lines[at] = fmt.Sprintf("weight.%d=%d", other, shown)
				break
			}
		}
	}
	return strings.Join(lines, ",")
}

// mask changes the requests to a mutant leader, by its own clients and by learners.
func (p *process) mask(batch []replica.Event) {
	list := p.w.trouble.list
	if !p.w.is(WeightZeroLeads) || !p.leads() || list == "" {
		return
	}
	instead := masked(list, p.id)
	if instead == "" {
		return
	}
	for i := range batch {
		switch e := &batch[i]; {
		case e.Kind == replica.EventRequest && e.Request.Op == zk.OpReconfig:
			if r := e.Request.Reconfig; r.NewMembers != nil && *r.NewMembers == list {
				r.NewMembers = &instead
				e.Body = bytes.Replace(e.Body, []byte(list), []byte(instead), 1)
			}
		case e.Kind == replica.EventMessage && e.Message.Kind == zab.KindRequest && e.Message.Request.Op == zk.OpReconfig:
			r := e.Message.Request
			r.Body = bytes.Replace(r.Body, []byte(list), []byte(instead), 1)
		}
	}
	asked, shown := parseList(list), parseList(instead)
	if p.masks == nil {
		p.masks = masks{}
	}
	p.masks[shown.Text()] = asked
}

// parseList parses a list of all servers in a request.
func parseList(list string) *ensemble.Config { return parse(strings.ReplaceAll(list, ",", "\n")) }

// unmask restores the requested weights in everything that leaves a mutant leader: in
// records, on disk and in its history, and in the configuration that it saves and has in
// its tree.
func (p *process) unmask(effects *replica.Effects) {
	if p.masks == nil {
		return
	}
	e := &effects.Ensembles
	if proposed := e.Proposed; proposed != nil {
		if e.Proposed = p.masks.real(proposed); e.Proposed != proposed {
			shown, asked := []byte(proposed.Text()), []byte(e.Proposed.Text())
			for i := range effects.Disk {
				unmaskIn(effects.Disk[i].Payload, shown, asked)
			}
			for i := range effects.Links {
				unmaskIn(effects.Links[i].Message.Payload, shown, asked)
			}
		}
	}
	if e.InForce != nil {
		if e.InForce = p.masks.real(e.InForce); !e.InForce.Equal(p.replica.Config()) {
			z := p.replica.Tree()
			z.Lock()
			z.PutConfig([]byte(e.InForce.Text()), zk.Zxid(e.InForce.Version), p.now().WallMs)
			z.Unlock()
		}
	}
}

// unmaskIn changes a configuration in a record, in place, because it is the server's own
// memory.
func unmaskIn(payload, shown, asked []byte) {
	if at := bytes.Index(payload, shown); at >= 0 {
		copy(payload[at:], asked)
	}
}

// real returns what was requested in place of a configuration.
func (m masks) real(c *ensemble.Config) *ensemble.Config {
	if asked := m[c.WithVersion(0).Text()]; asked != nil {
		return asked.WithVersion(c.Version)
	}
	return c
}

// realText is real for a text.
func (m masks) realText(text string) string {
	if len(m) == 0 || text == "" {
		return text
	}
	c, err := ensemble.Parse(text)
	if err != nil {
		return text
	}
	return m.real(c).Text()
}
