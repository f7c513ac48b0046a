package admin

import (
	"testing"

	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/zab"
)

// As Apache ZooKeeper 3.9.5 reports them: synced_observers on every follower, and on an
// observer the server that serves it.
func TestMntrTellsOfObserverMasters(t *testing.T) {
	figures := func(st server.Status) map[string]any {
		all := map[string]any{}
		ensembleFigures(&st, func(key string, value any) { all[key] = value })
		return all
	}
	of := server.Status{Role: server.Role{Mode: server.ModeFollower, Leader: 3}}
	if got := figures(of)["synced_observers"]; got != 0 {
		t.Errorf("a follower serves %v observers", got)
	}
	of.Learners = []zab.Learner{
		{Server: 4, Observer: true, Stage: zab.LearnerServing}, {Server: 5, Observer: true, Stage: zab.LearnerSyncing},
	}
	if got := figures(of)["synced_observers"]; got != 1 {
		t.Errorf("an observer master with one of two observers in service tells of %v", got)
	}
	if got, told := figures(of)["observer_master_id"]; told {
		t.Errorf("a follower has the master %v", got)
	}
	observer := server.Status{Role: server.Role{Mode: server.ModeObserver, Leader: 3}, Master: 2, HasMaster: true}
	if got := figures(observer); got["observer_master_id"] != observer.Master || got["synced_observers"] != nil {
		t.Errorf("an observer of server 2 tells of %v, and of %v observers", got["observer_master_id"], got["synced_observers"])
	}
}
