package inprocess

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
)

// Servers that a reconfig has removed follow the next leader, and can be added again. No
// configuration contains their addresses, so they must announce them: the members have
// larger numbers here, and open the connections.
func TestServersThatWereTakenOutFollowTheNextLeader(t *testing.T) {
	base := reconfigurable()
	e, err := Start(Options{Servers: 5, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	serve(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	reconfig := func(change client.Change) {
		t.Helper()
		c, err := client.Dial(ctx, e.Addr(lead(t, e)), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		change.Version = -1
		if _, _, err := c.Reconfig(ctx, change); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for _, m := range e.Server(1).Config().Ensemble.Members[:2] {
		lines = append(lines, fmt.Sprintf("server.%d=%s", m.ID, m.String()))
	}
	reconfig(client.Change{Leaving: []string{"1", "2"}})
	for range 3 {
		leader := lead(t, e)
		if err := e.Kill(leader); err != nil {
			t.Fatal(err)
		}
		if err := e.Await(ctx, func() bool { return follow(e) }); err != nil {
			t.Fatalf("not all follow the leader after server %d", leader)
		}
		if err := e.Start(leader); err != nil {
			t.Fatal(err)
		}
		serve(t, e)
	}
	reconfig(client.Change{Joining: lines})
}

// follow reports whether all running servers serve in the leader's epoch.
func follow(e *Ensemble) bool {
	leader := e.Leader()
	for id := 1; leader != 0 && id <= e.Size(); id++ {
		if s := e.Server(id); s != nil && (!s.Serves() || s.Role().Epoch != e.Server(leader).Role().Epoch) {
			return false
		}
	}
	return leader != 0
}
