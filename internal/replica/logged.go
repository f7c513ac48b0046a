package replica

import (
	"bytes"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// loggedConfigs are the texts of the last two reconfigs that a state has, nil for none: the one
// in the tree of its snapshot, and those in the log after it. The tree alone is not enough: it
// has only the last one, and a client may have written something else there since.
type loggedConfigs struct{ newest, before []byte }

func (l *loggedConfigs) note(text []byte) { l.newest, l.before = bytes.Clone(text), l.newest }

// reconfigIn returns the text of a configuration in a tree, if a reconfig has written it, and
// its version. A reconfig leaves the zxid that wrote the text as the version in it, and a fixed
// version of the znode. A text that a setData wrote does not count, even if its client guessed
// the zxid.
func reconfigIn(t *tree.Tree) (text []byte, version int64) {
	node, ok := t.Find(zk.ConfigPath)
	if !ok {
		return nil, 0
	}
	text = node.Data()
	version = ensemble.VersionOf(text)
	if stat := node.Stat(); version != int64(stat.Mzxid) || stat.Version != configDataVersion {
		return nil, 0
	}
	return text, version
}

// recalled returns a reconfig that was logged before a restart, or came with a snapshot, and is
// newer than the one in force: the file for it was not written, or is gone. Nobody knows
// whether it was committed, so its quorum counts as well. The version of a first epoch is no
// reconfig: where there was none, the configuration given at the start says where the servers
// are.
func (r *Replica) recalled(s *State) *ensemble.Config { return r.newerReconfig(s.configs.newest) }

func (r *Replica) newerReconfig(text []byte) *ensemble.Config {
	c := r.ensemble.readNewer(text)
	if c == nil || zk.Zxid(c.Version).Counter() == 0 {
		return nil
	}
	return c
}

// committedIn returns the newest reconfig that a state shows to be in force; nil if there is
// none newer than what the files have. A reconfig is in force if the log goes on after it in a
// later epoch: the leader of that epoch had it in its history, and began with a quorum of both
// configurations. Of any other reconfig nobody knows. Then the one before it is in force: only
// one change is possible at a time, and the configuration in the files would be two behind.
func (r *Replica) committedIn(s *State) *ensemble.Config {
	newest, last := r.recalled(s), s.tree.LastZxid()
	if newest == nil || last.Counter() != 0 && last.Epoch() > zk.Zxid(newest.Version).Epoch() {
		return newest
	}
	if before := r.newerReconfig(s.configs.before); before != nil && before.Version < newest.Version {
		return before
	}
	return nil
}

// UnreadableConfig returns why a configuration in the data at the start, newer than the one in
// force, could not be read; nil if there was none. Apache servers accept some configurations
// that are refused here. A server that counts by an older configuration may hold an election
// against those that can read the newer one.
func (r *Replica) UnreadableConfig() error { return r.unreadable }

// unreadableIn returns the same for a state.
func (r *Replica) unreadableIn(s *State) error {
	text := s.configs.newest
	if ensemble.VersionOf(text) <= r.ensemble.inForce.Version {
		return nil
	}
	_, err := ensemble.Parse(string(text))
	return err
}
