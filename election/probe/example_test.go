package probe_test

import (
	"net/http"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/probe"
)

// The orchestrator restarts a process whose function does not end, and routes requests to
// the leader.
func ExampleHandler() {
	elector, err := election.New(electiontest.NewStore(nil), "billing", election.Options{Once: true})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /livez", probe.Handler(elector, probe.Alive))
	mux.Handle("GET /readyz", probe.Handler(elector, probe.Leads))
}
