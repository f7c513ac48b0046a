package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// configs are the configurations on a server's disk.
type configs struct {
	inForce zk.Zxid // of the reconfig that created it, 0 for the initial configuration
	members quorum.IDs
	// next is a reconfig that is in the log and not known to be in force, 0 for none.
	next        zk.Zxid
	nextMembers quorum.IDs
}

// reconfigMark is the prefix of a reconfig's payload; the servers follow.
const reconfigMark = "reconfig:"

// changeOf returns the servers of a reconfig, nil for any other transaction.
func changeOf(r zab.Record) quorum.IDs {
	list, is := strings.CutPrefix(string(r.Payload), reconfigMark)
	if !is {
		return nil
	}
	return membersOf(list)
}

func membersOf(list string) quorum.IDs {
	var ids quorum.IDs
	for name := range strings.SplitSeq(list, ".") {
		ids.Add(idOf(name))
	}
	return ids
}

func listOf(ids quorum.IDs) string {
	var names []string
	for _, id := range ids {
		names = append(names, nameOf(id))
	}
	return strings.Join(names, ".")
}

func zabConfig(version zk.Zxid, members quorum.IDs) zab.Config {
	return zab.Config{Version: int64(version), Quorum: quorum.NewMajority(members...), Text: []byte(listOf(members))}
}

// ensembleOf returns the configurations in the form that the election needs.
func (c *configs) ensembleOf() fle.Ensemble {
	e := fle.Ensemble{Committed: quorum.NewMajority(c.members...), Version: int64(c.inForce), Config: listOf(c.members)}
	if c.next != 0 {
		e.Seen, e.SeenVersion, e.SeenConfig = quorum.NewMajority(c.nextMembers...), int64(c.next), listOf(c.nextMembers)
	}
	return e
}

// reconfig has the leader propose different servers.
func (z *zabServer) reconfig(members quorum.IDs) error {
	c := &z.disk.configs
	switch {
	case z.peer.State() != zab.Leading || !z.serving:
		return fmt.Errorf("%s does not lead: ask the leader", z.server.id)
	case c.next != 0:
		return fmt.Errorf("a reconfig is under way already")
	case !z.peer.InStep(quorum.NewMajority(members...)):
		return fmt.Errorf("no majority of the new ensemble follows this leader")
	}
	zxid := z.peer.NextZxid()
	config := zabConfig(zxid, members)
	z.push(zab.Event{Kind: zab.EventPropose, Record: zab.Record{Zxid: zxid, Payload: []byte(reconfigMark + listOf(members))}, Config: &config})
	return nil
}

// expect notes a reconfig that is in the log: from now on its majority counts, too.
func (z *zabServer) expect(r zab.Record) {
	c, members := &z.disk.configs, changeOf(r)
	if members == nil || r.Zxid <= max(c.inForce, c.next) {
		return
	}
	c.next, c.nextMembers = r.Zxid, members
	if z.peer.State() != zab.Leading {
		config := zabConfig(r.Zxid, members)
		z.push(zab.Event{Kind: zab.EventConfig, Config: &config})
	}
	z.vote(fle.Reconfigured{Ensemble: c.ensembleOf()})
}

// activate puts a reconfig in force.
func (z *zabServer) activate(version zk.Zxid, members quorum.IDs) {
	c := &z.disk.configs
	if version <= c.inForce || members == nil {
		return
	}
	c.inForce, c.members = version, members
	if c.next <= version {
		c.next, c.nextMembers = 0, nil
	}
	z.note(NoteState, "takes the ensemble to be %s", strings.ReplaceAll(listOf(members), ".", ", "))
	config := zabConfig(version, members)
	z.push(zab.Event{Kind: zab.EventConfig, OK: true, Config: &config})
	z.vote(fle.Reconfigured{Ensemble: c.ensembleOf()})
}

// activateLogged puts the newest delivered reconfig in force.
func (z *zabServer) activateLogged() {
	for _, r := range slices.Backward(z.tree) {
		if members := changeOf(r); members != nil {
			z.activate(r.Zxid, members)
			return
		}
	}
}

// reload reads the pending reconfig from a log that was truncated or replaced. A reconfig
// that was truncated is no longer pending.
func (c *configs) reload(records []zab.Record) {
	c.next, c.nextMembers = 0, nil
	for _, r := range slices.Backward(records) {
		if members := changeOf(r); members != nil {
			if r.Zxid > c.inForce {
				c.next, c.nextMembers = r.Zxid, members
			}
			return
		}
	}
}

// adopt takes over a peer's newer configuration while looking.
func (z *zabServer) adopt(e fle.Adopt) {
	z.activate(zk.Zxid(e.Version), membersOf(e.Config))
}

// learn tells the election about the participants that only a peer's log names.
func (z *zabServer) learn(e fle.Learned) {
	ensemble := z.disk.configs.ensembleOf()
	ensemble.Learned = quorum.NewMajority(membersOf(e.Config)...)
	z.vote(fle.Reconfigured{Ensemble: ensemble})
}
