package admin

import (
	"encoding/json"
	"time"

	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/zab"
)

// electionEntry is an election as this server saw it, as JSON.
type electionEntry struct {
	Began   string `json:"began"`
	Reason  string `json:"reason,omitempty"` // why the server's role before it ended; none after a start
	Votes   []cast `json:"votes"`
	More    int    `json:"moreVotes,omitempty"`
	Decided string `json:"decided,omitempty"` // left out while the election goes on, and if it led to nothing
	Leader  *int64 `json:"leader,omitempty"`
}

// cast is a vote, as JSON.
type cast struct {
	Time   string `json:"time"`
	Server int64  `json:"server"`
	State  string `json:"state"` // of that server: looking, following, leading, observing
	For    int64  `json:"for"`
	Epoch  int64  `json:"epoch"`
	Zxid   string `json:"zxid"`
	Round  int64  `json:"round"`
}

func wallTime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }

// votes returns the newest elections of the ensemble as this server saw them, oldest first.
// ZooKeeper has no such command.
func votes(_ Commands, s *server.Server) Fields {
	all := []electionEntry{}
	for _, b := range s.ElectionLog() {
		one := electionEntry{Began: wallTime(b.BeganMs), Votes: []cast{}, More: b.More}
		if b.Reason != zab.ReasonNone {
			one.Reason = b.Reason.String()
		}
		if b.DecidedMs != 0 {
			leader := int64(b.Leader)
			one.Decided, one.Leader = wallTime(b.DecidedMs), &leader
		}
		for _, c := range b.Cast {
			one.Votes = append(one.Votes, cast{wallTime(c.AtMs), int64(c.Server), c.State.String(), int64(c.Leader), c.Epoch, c.Zxid.String(), c.Round})
		}
		all = append(all, one)
	}
	return Fields{{"elections", all}}
}

// vote returns the same as a four-letter word, in one line of JSON.
func vote(c Commands, s *server.Server) string {
	text, _ := json.Marshal(votes(c, s)[0].Value) // all values can be encoded as JSON
	return string(text) + "\n"
}
