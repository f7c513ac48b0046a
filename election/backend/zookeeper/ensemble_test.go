package zookeeper_test

import (
	"testing"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election/electiontest"
)

// Candidates are spread over three servers: what one candidate writes on one
// server, another one reads on another.
func TestZooKeeperBackendPassesTheSuiteOnAnEnsemble(t *testing.T) {
	electiontest.Run(t, electiontest.Suite{Open: open, OpenCut: openCut, URL: func(t testing.TB) string {
		return conclavetest.Start(t).Servers()
	}})
}
