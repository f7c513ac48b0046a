package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
)

// pairUnderOracle starts two servers in a bubble, each with an oracle of its own, and returns
// who leads.
func pairUnderOracle(t *testing.T, oracles map[quorum.ID]func() bool) (all map[quorum.ID]*Server, ends map[quorum.ID]func() error, net *bubble.Net, leader quorum.ID) {
	t.Helper()
	all, ends, net = wired(t, 2, func(c *Config) { c.Oracle, c.InitLimit, c.SyncLimit = oracles[c.ID], 20, 5 })
	awaittest.Until(t, "both serve", func() bool { return all[1].Serves() && all[2].Serves() })
	return all, ends, net, all[1].Role().Leader
}

func TestOneOfTwoServersGoesOnIfTheOraclePermits(t *testing.T) {
	synctest.Test(t, oneOfTwoServersGoesOnIfTheOraclePermits)
}

func oneOfTwoServersGoesOnIfTheOraclePermits(t *testing.T) {
	var permits [3]atomic.Bool
	oracles := map[quorum.ID]func() bool{1: permits[1].Load, 2: permits[2].Load}
	all, ends, net, leader := pairUnderOracle(t, oracles)
	rest, gone := all[3-leader], leader // the one that is left must be elected
	if err := ends[gone](); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "nobody leads", func() bool { return !rest.Serves() })
	awaittest.Never(t, time.Second, "a server serves without the other, and nobody has said that it may", func() bool { return rest.Serves() })
	permits[3-gone].Store(true)
	awaittest.Until(t, "the oracle's server leads", rest.Leads)
	c := reach(t, net, rest)
	if code, _ := c.do(create("/alone", "x", zk.Persistent)); code != zk.OK {
		t.Fatalf("a write of a server that goes on alone: %v", code)
	}
	if code, _ := c.do(zk.Request{Op: zk.OpSync, Path: "/"}); code != zk.OK {
		t.Errorf("a sync: %v", code)
	}
	permits[3-gone].Store(false)
	awaittest.Until(t, "it has stopped without the permission", func() bool { return !rest.Serves() })
}

// An oracle that hangs permits nothing.
func TestOracleThatDoesNotAnswerSaysNothing(t *testing.T) {
	synctest.Test(t, oracleThatDoesNotAnswerSaysNothing)
}

func oracleThatDoesNotAnswerSaysNothing(t *testing.T) {
	hangs := make(chan struct{})
	t.Cleanup(func() { close(hangs) })
	var hang atomic.Bool
	oracle := func() bool {
		if hang.Load() {
			<-hangs
		}
		return true
	}
	all, ends, net, leader := pairUnderOracle(t, map[quorum.ID]func() bool{1: oracle, 2: oracle})
	rest := all[leader]
	if err := ends[3-leader](); err != nil {
		t.Fatal(err)
	}
	c := reach(t, net, rest)
	if code, _ := c.do(create("/alone", "x", zk.Persistent)); code != zk.OK {
		t.Fatalf("a write of a server that goes on alone: %v", code)
	}
	hang.Store(true)
	awaittest.Until(t, "it has stopped", func() bool { return !rest.Serves() })
}
