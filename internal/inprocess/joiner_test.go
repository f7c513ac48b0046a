package inprocess

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/server"
)

// A server that is to be added is started again before the reconfig. By then the
// configuration in its file is the others', and its own line is kept beside it.
func TestJoinerThatIsStartedAgainIsAdded(t *testing.T) {
	for _, observer := range []bool{false, true} {
		base := reconfigurable()
		var own ensemble.Member
		e, err := Start(Options{Servers: 4, Base: base, Change: func(id int, c *server.Config) {
			others := *c.Ensemble
			own, others.Members = others.Members[3], others.Members[:3]
			if own.Observer = observer; id == 4 {
				mine := own
				c.Own, c.Observer = &mine, observer
			}
			c.Ensemble = &others
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		serve(t, e)
		leader := lead(t, e)
		for _, id := range []int{4, leader, 4} {
			if err := e.Kill(id); err != nil {
				t.Fatal(err)
			}
			if err := e.Start(id); err != nil {
				t.Fatalf("server %d: %v", id, err)
			}
			serve(t, e)
		}
		if lead(t, e) == 4 {
			t.Error("a server leads that is not of the ensemble")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		c, err := client.Dial(ctx, e.Addr(4), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		line := "server.4=" + own.String()
		if !strings.Contains(line, ";") {
			line += ";" + e.Addr(4)
		}
		text, _, err := c.Reconfig(ctx, client.Change{Version: -1, Joining: []string{line}})
		if err != nil || !strings.Contains(string(text), line) {
			t.Errorf("observer=%v: %s, %v", observer, text, err)
		}
		// It counts: with one of the first three down, the rest is a quorum of four.
		if err := e.Kill(lead(t, e)%3 + 1); err != nil {
			t.Fatal(err)
		}
		if err := c.Sync(ctx, "/"); err != nil {
			t.Errorf("observer=%v: %v", observer, err)
		}
	}
}
