package replica

import (
	"bytes"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// loggedConfigs are the texts of the last two reconfigs that a state has, nil for none: that
// in the tree of its snapshot, and those in the log after it. The tree alone would not do: it
// has the last one, and a client may have written something else there since.
type loggedConfigs struct{ newest, before []byte }

func (l *loggedConfigs) note(text []byte) { l.newest, l.before = bytes.Clone(text), l.newest }

// reconfigIn returns the text that a tree has of a configuration, if a reconfig has left
// it, and its version: the zxid that wrote it, and the version of its znode is the one that a
// reconfig leaves. A text that a setData brought is none, though its client may foresee the zxid.
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

// recalled is a reconfig that was logged before a restart, or came with a snapshot, and is
// newer than what is in force: the file that has it was not written, or is gone. Whether it was committed is
// not known, so its quorum counts as well. The number of a first epoch is no reconfig:
// where there was none, the configuration of the start says where the servers are.
func (r *Replica) recalled(s *State) *ensemble.Config { return r.newerReconfig(s.configs.newest) }

func (r *Replica) newerReconfig(text []byte) *ensemble.Config {
	c := r.ensemble.readNewer(text)
	if c == nil || zk.Zxid(c.Version).Counter() == 0 {
		return nil
	}
	return c
}

// committedIn is the newest reconfig that a state shows to be in force, nil for none that is newer
// than what the files have. One after which the log goes on in a later epoch is: the leader of
// that had it in its history, and began with a quorum of both. Of any other nobody knows. The one
// before it is in force: there is one change at a time, and to count by the one of the files
// would be to count by a configuration that is two behind.
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

// UnreadableConfig returns why a configuration could not be read that the data had at the start,
// newer than the one in force, nil if there was none: Apache's servers take some that are refused
// here. A server that counts by an older one may elect against those who can read it.
func (r *Replica) UnreadableConfig() error { return r.unreadable }

// unreadableIn is UnreadableConfig of a state.
func (r *Replica) unreadableIn(s *State) error {
	text := s.configs.newest
	if ensemble.VersionOf(text) <= r.ensemble.inForce.Version {
		return nil
	}
	_, err := ensemble.Parse(string(text))
	return err
}
