package command

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
)

// diskFull reports whether a server says that it can store nothing more. A follower
// without space serves on and has all that is committed, in memory: its zxid says
// nothing of what it has stored.
func (s *standing) diskFull() bool { return s.Mntr["zk_disk_full"] == "1" }

// number is the id of a server of an ensemble, "" if it does not tell it.
func (s *standing) number() string {
	return cmp.Or(s.ID, s.Mntr["zk_server_id"])
}

// unstored is how many committed transactions the leader waits for from a follower, "" if
// it does not tell.
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

// leaderOf is the leader with the newest zxid, nil where none was seen.
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

// withoutFull takes followers whose disks are full out of those that a leader has in sync:
// what it knows of them is that they have received everything.
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

// disksFull are lines about the servers that can store nothing.
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
