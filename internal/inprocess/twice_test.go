package inprocess

import (
	"log/slog"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/server"
)

// A machine was copied with its myid: the leader reports this, and continues.
func TestTwoServersWithOneNumberAreTold(t *testing.T) {
	var told awaittest.Log
	e, err := Start(Options{Servers: 3, Observers: 1, Base: quick(),
		Logger: func(int) *slog.Logger { return slog.New(slog.NewTextHandler(&told, nil)) },
		Change: func(id int, c *server.Config) {
			if id == 4 {
				c.ID, c.Observer = 3, false
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	must(t, e.Stop(4))
	must(t, e.Stop(3))
	leader := lead(t, e)
	must(t, e.Start(3))
	serve(t, e)
	must(t, e.Start(4))
	awaittest.Until(t, "the leader tells", func() bool {
		return told.Count("another one has its number, 3: two servers must not have the same myid") > 0
	})
	// The refused server retries as long as it runs, and reports it, but does not fill its
	// log.
	awaittest.Until(t, "the other one has tried often", func() bool {
		return max(e.Server(3).Status().Elections, e.Server(4).Status().Elections) > 30
	})
	for _, line := range []string{`msg="connecting to the leader"`, `msg="no role yet"`} {
		if n := told.Count(line); n == 0 || n > 15 {
			t.Errorf("%d lines %s of four servers", n, line)
		}
	}
	if e.Leader() != leader {
		t.Errorf("server %d leads, and %d did", e.Leader(), leader)
	}
	create(t, e, "/a")
}
