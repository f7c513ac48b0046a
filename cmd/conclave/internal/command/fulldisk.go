package command

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

// diskFull reports whether a server says that its disk is full. A follower without space
// continues to serve and has everything committed in memory, so its zxid does not show what
// it has stored.
func (s *standing) diskFull() bool { return s.Mntr["zk_disk_full"] == "1" }

// number returns the id of a server in an ensemble; "" if it does not report one.
func (s *standing) number() string {
	return cmp.Or(s.ID, s.Mntr["zk_server_id"])
}

// unstored returns how many committed transactions the leader expects a follower to store;
// "" if it does not report that.
func (s *standing) unstored(leader *standing) string {
	if leader == nil || leader == s || s.number() == "" {
		return ""
	}
	lag := leader.Mntr["zk_learner_"+s.number()+"_lag"]
	if _, err := strconv.ParseUint(lag, 10, 64); err != nil {
		return ""
	}
	return lag
}

// leaderOf returns the leader with the highest zxid; nil if there is none.
func leaderOf(all []standing) (leader *standing) {
	newest := uint64(0)
	for i := range all {
		zxid, err := strconv.ParseUint(all[i].Zxid, 0, 64)
		if err == nil && all[i].Mode == "leader" && (leader == nil || zxid > newest) {
			leader, newest = &all[i], zxid
		}
	}
	return leader
}

// withoutFull removes followers whose disks are full from the number that a leader has in
// sync: the leader only knows that they have received everything.
func withoutFull(all []standing, leader *standing) {
	synced, participants, told := strings.Cut(leader.InSync, "/")
	n, err := strconv.Atoi(synced)
	if !told || err != nil {
		return
	}
	for i := range all {
		s := &all[i]
		if s.Mode == "follower" && s.diskFull() && leader.Mntr["zk_learner_"+s.number()+"_in_sync"] == "1" {
			n--
		}
	}
	leader.InSync = strconv.Itoa(max(0, n)) + "/" + participants
}

// disksFull returns lines about the servers whose disks are full.
func disksFull(all []standing) (lines []string) {
	leader := leaderOf(all)
	for i := range all {
		s := &all[i]
		if !s.diskFull() {
			continue
		}
		line := s.Server + ": its disk is full: it "
		switch lag := s.unstored(leader); {
		case s.Mode == "standalone":
			line += "refuses all writes"
		case lag == "" || lag == "0":
			line += "can store nothing more; do not stop another server"
		default:
			line += "has not stored the last " + lag + " transactions; do not stop another server"
		}
		lines = append(lines, line)
	}
	return lines
}

// fullError is the error of servers whose disks are full.
func fullError(all []standing) error {
	lines := disksFull(all)
	if len(lines) == 0 {
		return nil
	}
	return &cli.Error{Err: errors.New(cli.VisibleText(strings.Join(lines, "\n"))), Exit: cli.ExitFailed,
		Hint: "make space there, or put the server's files back if its log says that they have gone: it then continues by itself; \"A full disk\" in docs/operations.md says what it does until then"}
}
