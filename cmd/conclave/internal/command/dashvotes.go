package command

import (
	"context"
	"encoding/json"
	"strings"
)

// electionsSeen has the latest elections of the ensemble as one server has seen them, as
// JSON.
type electionsSeen struct {
	Server    string          `json:"server"`
	ID        *int64          `json:"id,omitempty"`
	Elections json.RawMessage `json:"elections"` // as the server reports them, oldest first
}

// dashVotes has the elections of all servers that report them, as JSON.
type dashVotes struct {
	Servers []electionsSeen `json:"servers"`
}

// Votes asks all servers, including those without a leader. Apache's servers do not report
// any.
func (d *dashSource) Votes(ctx context.Context) (any, error) {
	d.looking.Lock()
	at := d.lastLook(ctx)
	d.looking.Unlock()
	i := d.overseer.inspector
	i.servers, i.remarks = at.servers, new(strings.Builder)
	told := make([]json.RawMessage, len(i.servers))
	i.each(ctx, func(at int, _ string) question {
		return question{"vote", "votes", func(answer string) {
			if json.Valid([]byte(answer)) {
				told[at] = json.RawMessage(answer)
			}
		}, func(fields map[string]json.RawMessage) error { return field(fields, "elections", &told[at]) }}
	})
	found := dashVotes{Servers: []electionsSeen{}}
	for at, s := range i.servers {
		if told[at] != nil {
			found.Servers = append(found.Servers, electionsSeen{s.Server, integer(s.ID), told[at]})
		}
	}
	return found, nil
}
