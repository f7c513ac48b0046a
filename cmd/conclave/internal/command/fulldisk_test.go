package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/vfs"
)

func TestFollowerWithAFullDiskIsNotInSync(t *testing.T) {
	full := map[string]string{"zk_disk_full": "1", "zk_server_id": "3"}
	leader := standing{Server: "a:1", ID: "1", Mode: "leader", Zxid: "0x200000050", InSync: "2/2", Mntr: map[string]string{
		"zk_learner_2_in_sync": "1", "zk_learner_2_lag": "1", "zk_learner_3_in_sync": "1", "zk_learner_3_lag": "67"}}
	all := []standing{leader, {Server: "b:1", ID: "2", Mode: "follower", Zxid: "0x200000050"},
		{Server: "c:1", Mode: "follower", Zxid: "0x200000050", Mntr: full}}
	compare(all)
	if all[0].InSync != "1/2" || all[1].Lag != "1" || all[2].Lag != "67" {
		t.Errorf("in sync %s, lag %s and %s", all[0].InSync, all[1].Lag, all[2].Lag)
	}
	err := fullError(all)
	if err == nil || err.Error() != "c:1: its disk is full: it has not stored the last 67 transactions; do not stop another server" || exitOf(err) != cli.ExitFailed {
		t.Errorf("%v", err)
	}
	if typed := answers(all); typed[1].DiskFull || !typed[2].DiskFull {
		t.Errorf("%+v", typed)
	}
	alone := []standing{{Server: "a:1", Mode: "standalone", Zxid: "0x50", Mntr: full}, {Server: "b:1", Mode: "follower", Mntr: full}}
	compare(alone)
	if err := fullError(alone); err == nil || err.Error() != "a:1: its disk is full: it refuses all writes\nb:1: its disk is full: it can store nothing more; do not stop another server" {
		t.Errorf("%v", err)
	}
	if err := fullError([]standing{leader}); err != nil {
		t.Error(err)
	}
}

// TestFullDiskOfAFollowerIsTold has a follower that still serves, and has in memory everything that
// the leader has committed.
func TestFullDiskOfAFollowerIsTold(t *testing.T) {
	disks := map[int]*vfs.Mem{1: vfs.NewMem(), 2: vfs.NewMem(), 3: vfs.NewMem()}
	base := devConfig()
	base.PreallocBytes, base.ReconfigEnabled, base.Auth.SkipACL = 64<<10, true, true
	e, err := inprocess.Start(inprocess.Options{Servers: 3, Base: base, FS: func(id int) vfs.FS { return disks[id] }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Await(ctx, func() bool { return serving(e) }); err != nil {
		t.Fatal(err)
	}
	leader := e.Leader()
	one, two := leader%3+1, (leader+1)%3+1
	c, err := client.Dial(ctx, e.Addr(leader), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	disks[one].SetCapacity(disks[one].Used())
	for i := 0; i < 40 || !e.Server(one).Status().DiskFull; i++ {
		if _, _, err := c.Create(ctx, fmt.Sprintf("/n%d", i), make([]byte, 10<<10), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	out, _, err := play(t, newStatus(), "--server", e.Addr(two), "--json")
	var got []answer
	if bad := json.Unmarshal([]byte(out), &got); bad != nil {
		t.Fatal(bad, out)
	}
	want := e.Addr(one) + ": its disk is full: it has not stored the last "
	if err == nil || exitOf(err) != cli.ExitFailed || !strings.HasPrefix(err.Error(), want) || len(got) != 3 {
		t.Fatalf("%v\n%+v", err, got)
	}
	for _, s := range got {
		switch s.Server {
		case e.Addr(leader):
			if *s.InSync != 1 || *s.Followers != 2 {
				t.Errorf("in sync: %d of %d", *s.InSync, *s.Followers)
			}
		case e.Addr(one):
			if *s.Lag == 0 || !s.DiskFull || s.Mode != "follower" {
				t.Errorf("lag %d, full %t, %s", *s.Lag, s.DiskFull, s.Mode)
			}
		}
	}
	page, _, err := asJSON[page](t, newTop(), "--server", e.Addr(two), "--interval", "500ms", "--elections", "0", "--clients", "0")
	if err != nil || len(page.Problems) != 1 || !strings.HasPrefix(page.Problems[0], want) {
		t.Errorf("top: %v\n%+v", err, page.Problems)
	}
	// Two of three servers are in sync; without the other follower, it would be one of two.
	plan, err := reconfigures(t, e, "--remove", fmt.Sprint(two), "--timeout", "2s", "--dry-run")
	if err == nil || plan.Quorum {
		t.Errorf("reconfig: %v\n%+v", err, plan.Servers)
	}
}
