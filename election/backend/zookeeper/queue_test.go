//go:build linux

package zookeeper_test

import (
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/queuetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

func TestZooKeeperPassesTheTestsOfQueues(t *testing.T) {
	const path = "/conclave/elections/e"
	queuetest.Run(t, queuetest.Store{
		URL: func(t testing.TB) string { return startServerFor(t, time.Minute) }, Open: open, // no lease ends in it
		Waiting: func(t testing.TB, addr string) []string {
			names, _, err := operator(t, addr).Children(awaittest.Within(t), path)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
			sortBySequence(names)
			return names[min(1, len(names)):]
		},
		Remove: func(t testing.TB, addr, name string) {
			if err := operator(t, addr).Delete(awaittest.Within(t), path+"/"+name, -1); err != nil {
				t.Fatal(err)
			}
		},
	})
}
