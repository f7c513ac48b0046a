package client

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
)

// Every role gives the same answers: a follower or an observer forwards its
// clients' writes to the leader.
func TestTheSuitePassesAgainstEveryRole(t *testing.T) {
	base := server.Default()
	base.TickTime, base.ExtendedTypes, base.PreallocBytes = 500*time.Millisecond, true, 1<<20
	e, err := inprocess.Start(inprocess.Options{Servers: 3, Observers: 1, Base: base})
	must(t, err)
	t.Cleanup(e.Close)
	must(t, e.Await(awaittest.Within(t), func() bool {
		for id := 1; id <= e.Size(); id++ {
			if !e.Server(id).Serves() {
				return false
			}
		}
		return true
	}))
	for id := 1; id <= e.Size(); id++ {
		t.Run(string(e.Server(id).Role().Mode), func(t *testing.T) { runSuite(t, e.Addr(id)) })
	}
}
