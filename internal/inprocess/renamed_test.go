package inprocess

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/server"
)

// One reconfig gives all hosts different names. All servers are killed when the reconfig
// was proposed, saved as proposed, committed and answered, but not yet saved as in force.
// The log contains the change, and a start uses the newer of the two configurations.
func TestEnsembleThatIsKilledBeforeItsNewNamesAreSavedStarts(t *testing.T) {
	base := reconfigurable()
	var mu sync.Mutex
	next := map[int]*ensemble.Config{}
	e, err := Start(Options{Servers: 3, Base: base, Change: func(id int, c *server.Config) {
		mu.Lock()
		defer mu.Unlock()
		c.Pending = next[id]
		c.SaveEnsemble = func(c *ensemble.Config, _ bool) error {
			mu.Lock()
			defer mu.Unlock()
			next[id] = c // even if in force by now: a late save counts as one in .next, and no further
			return nil
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	serve(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, e.Addr(lead(t, e)), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range e.Server(1).Config().Ensemble.Members {
		lines = append(lines, strings.ReplaceAll(fmt.Sprintf("server.%d=%s", m.ID, m.String()), "127.0.0.1", "localhost"))
	}
	if _, _, err := c.Reconfig(ctx, client.Change{Members: lines, Version: -1}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for id := 1; id <= 3; id++ {
		if err := e.Stop(id); err != nil {
			t.Fatal(err)
		}
	}
	for id := 1; id <= 3; id++ {
		if next[id] == nil {
			t.Fatalf("server %d has not saved what was proposed", id)
		}
		if err := e.Start(id); err != nil {
			t.Errorf("server %d: %v", id, err)
		}
	}
	if !t.Failed() {
		serve(t, e)
	}
}
