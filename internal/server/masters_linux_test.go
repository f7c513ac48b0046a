package server

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Followers serve observers at a port that is the same on all of them, and open while they
// follow. The servers have addresses of their own here, from Linux's loopback device.
func TestFollowersServeObservers(t *testing.T) {
	ports := freePorts(t, 9)
	text := ""
	for i := range 4 {
		role := "participant"
		if i == 3 {
			role = "observer"
		}
		text += fmt.Sprintf("server.%d=127.0.0.%d:%d:%d:%s\n", i+1, i+1, ports[2*i], ports[2*i+1], role)
	}
	all := map[quorum.ID]*Server{}
	ends := map[quorum.ID]func() error{}
	begin := func(id quorum.ID) {
		all[id], ends[id] = launch(t, vfs.NewMem(), func(c *Config) {
			e, err := ensemble.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			c.ID, c.Ensemble, c.Observer, c.ObserverPort = id, e, id == 4, ports[8]
			c.InitLimit, c.SyncLimit = 100, 100 // nobody is silent
		})
	}
	for id := range quorum.ID(4) {
		begin(id + 1)
	}
	master := func() quorum.ID {
		if st := all[4].Status(); st.HasMaster && st.Mode == ModeObserver {
			return st.Master
		}
		return 0
	}
	opens := func(id quorum.ID) bool {
		socket, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.%d:%d", id, ports[8]), time.Second)
		if err == nil {
			socket.Close()
		}
		return err == nil
	}
	awaittest.Until(t, "the observer has a master", func() bool { return master() != 0 })
	first, leader := master(), all[4].Role().Leader
	if first == leader || first == 4 {
		t.Fatalf("server %d leads, and the observer is served by %d", leader, first)
	}
	if learners := all[first].Status().Learners; len(learners) != 1 || learners[0].Server != 4 || !learners[0].Observer {
		t.Errorf("the master %d serves %+v", first, learners)
	}
	for _, l := range all[leader].Status().Learners {
		if l.Observer {
			t.Errorf("the leader serves observer %d as well", l.Server)
		}
	}
	for id := range all {
		follows := id != leader && id != 4
		awaittest.Until(t, fmt.Sprintf("server %d has the port for observers open: %v", id, follows), func() bool { return opens(id) == follows })
	}

	c := dial(t, all[4], nil)
	if code, _ := c.do(create("/by-an-observer", "x", zk.Ephemeral)); code != zk.OK {
		t.Fatalf("a write by way of a master: %v", code)
	}
	if code, _ := c.do(zk.Request{Op: zk.OpSync, Path: "/"}); code != zk.OK {
		t.Errorf("a sync by way of a master: %v", code)
	}
	if err := ends[first](); err != nil {
		t.Error(err)
	}
	var second quorum.ID
	awaittest.Until(t, "the observer has another master", func() bool {
		second = master()
		return second != 0 && second != first
	})
	if second == leader {
		t.Errorf("the observer is served by the leader, while server %d follows", 6-int(first)-int(leader))
	}
	again := dial(t, all[4], c)
	if again.id != c.id {
		t.Fatalf("the session %x is %x by way of another master", c.id, again.id)
	}
	if code, _ := again.do(zk.Request{Op: zk.OpGetData, Path: "/by-an-observer"}); code != zk.OK {
		t.Errorf("its ephemeral: %v", code)
	}
}
