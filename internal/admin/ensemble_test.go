package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// startEnsemble runs three servers and an observer, until they serve.
func startEnsemble(t *testing.T, readOnly bool) (*inprocess.Ensemble, context.Context) {
	t.Helper()
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, 20*time.Second, 64<<10
	base.ReadOnlyMode = readOnly
	base.FourLetterWords, base.Commands = []string{"*"}, Commands{Version: "1.2.3", Built: "2026-11-20 22:10 UTC"}
	e, err := inprocess.Start(inprocess.Options{Servers: 3, Observers: 1, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	if err := e.Await(ctx, func() bool { return allServe(e) }); err != nil {
		t.Fatal(err)
	}
	return e, ctx
}

func allServe(e *inprocess.Ensemble) bool {
	for id := 1; id <= e.Size(); id++ {
		if s := e.Server(id); s == nil || !s.Serves() {
			return false
		}
	}
	return true
}

func askAt(t *testing.T, addr, name string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, name)
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// figuresOf is mntr as keys and values.
func figuresOf(t *testing.T, addr string) map[string]string {
	t.Helper()
	figures := map[string]string{}
	for line := range strings.Lines(askAt(t, addr, "mntr")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			figures[key] = value
		}
	}
	return figures
}

// The forms are those of Apache ZooKeeper 3.9.5, compared side by side.
func TestCommandsReportTheRole(t *testing.T) {
	e, ctx := startEnsemble(t, false)
	leader := e.Leader()
	c, err := client.Dial(ctx, e.Addr(4), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(ctx, "/a", []byte("data"), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	alike := func() bool { // one of the followers has acknowledged, the other may be behind
		for id := 1; id <= 4; id++ {
			if e.Server(id).Status().Last != e.Server(leader).Status().Last {
				return false
			}
		}
		return true
	}
	for ctx.Err() == nil && !alike() {
		runtime.Gosched()
	}
	for id := 1; id <= 4; id++ {
		addr, mode := e.Addr(id), "follower"
		switch id {
		case leader:
			mode = "leader"
		case 4:
			mode = "observer"
		}
		srvr := askAt(t, addr, "srvr")
		if !strings.Contains(srvr, "\nMode: "+mode+"\nNode count: ") {
			t.Errorf("server %d: %s", id, srvr)
		}
		sizes := regexp.MustCompile(`\nProposal sizes last/min/max: [1-9]\d*/[1-9]\d*/[1-9]\d*\n$`).MatchString(srvr)
		if sizes != (id == leader) {
			t.Errorf("server %d, %s: %s", id, mode, srvr)
		}
		if got := askAt(t, addr, "isro"); got != "rw" {
			t.Errorf("server %d: isro %q", id, got)
		}
		conf := askAt(t, addr, "conf")
		want := fmt.Sprintf("serverId=%d\ninitLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=", id)
		text := e.Server(id).Status().Ensemble.Text()
		if !strings.Contains(conf, want) || !strings.HasSuffix(conf, "\nmembership: \n"+text) {
			t.Errorf("server %d: %s", id, conf)
		}
		form := regexp.MustCompile(`^SessionTracker dump:\nGlobal Sessions\(1\):\n0x[0-9a-f]+\t\d+ms\nephemeral nodes dump:\n`)
		if id == leader {
			form = regexp.MustCompile(`^SessionTracker dump:\nSession Sets \(1\)/\(1\):\n1 expire at .*:\n\t0x[0-9a-f]+\nephemeral nodes dump:\n`)
		}
		if dump := askAt(t, addr, "dump"); !form.MatchString(dump) {
			t.Errorf("server %d, %s: %s", id, mode, dump)
		}
	}
}

func TestMntrTellsWhoLeadsWhoFollowsAndHowFar(t *testing.T) {
	e, ctx := startEnsemble(t, false)
	leader := e.Leader()
	c, err := client.Dial(ctx, e.Addr(leader), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Create(ctx, "/a", []byte("data"), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	digest := ""
	for id := 1; id <= 4; id++ {
		if s, err := client.Dial(ctx, e.Addr(id), client.Options{}); err != nil {
			t.Fatal(err)
		} else {
			defer s.Close()
			if err := s.Sync(ctx, "/"); err != nil {
				t.Fatal(err)
			}
		}
		f := figuresOf(t, e.Addr(id))
		want := map[string]string{
			"zk_quorum_size": "3", "zk_server_id": fmt.Sprint(id), "zk_leader_id": fmt.Sprint(leader),
			"zk_epoch": fmt.Sprint(e.Server(leader).Role().Epoch), "zk_server_state": "follower", "zk_peer_state": "following - broadcast",
		}
		switch id {
		case 4:
			want["zk_server_state"], want["zk_peer_state"] = "observer", "observing - broadcast"
		case leader:
			want["zk_server_state"], want["zk_peer_state"] = "leader", "leading - broadcast"
			want["zk_learners"], want["zk_synced_followers"], want["zk_synced_observers"] = "3", "2", "1"
			want["zk_synced_non_voting_followers"], want["zk_pending_syncs"] = "0", "0"
			want["zk_learner_4_in_sync"] = "1"
		}
		for key, value := range want {
			if f[key] != value {
				t.Errorf("server %d: %s is %q, want %q", id, key, f[key], value)
			}
		}
		if _, told := f["zk_learners"]; told != (id == leader) {
			t.Errorf("server %d reports learners", id)
		}
		// The sessions opened meanwhile are not in the digest.
		if digest == "" {
			digest = f["zk_tree_digest"]
		} else if f["zk_tree_digest"] != digest {
			t.Errorf("server %d has another tree: %s, %s", id, f["zk_tree_digest"], digest)
		}
	}
}

func TestLagOfAFollowerIsWhatItHasNotAcknowledged(t *testing.T) {
	for _, c := range []struct{ committed, acked, want int64 }{
		{0x100000005, 0x100000005, 0}, {0x100000005, 0x100000003, 2}, {0x100000005, 0x100000007, 0},
		{0x200000005, 0x100000009, 5}, {0, 0, 0},
	} {
		if got := (&server.Status{Committed: zk.Zxid(c.committed)}).Lag(&zab.Learner{Acked: zk.Zxid(c.acked)}); got != c.want {
			t.Errorf("%x behind %x: %d, want %d", c.acked, c.committed, got, c.want)
		}
	}
}

// The answers of Apache ZooKeeper 3.9.5 while it looks for a leader.
func TestServerWithoutALeaderSaysSo(t *testing.T) {
	e, ctx := startEnsemble(t, false)
	for id := 1; id <= 2; id++ {
		if err := e.Kill(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Await(ctx, func() bool { return !e.Server(3).Serves() }); err != nil {
		t.Fatal(err)
	}
	const sentence = "This ZooKeeper instance is not currently serving requests"
	for name := range commands {
		want := sentence + "\n"
		switch name {
		case "ruok":
			want = "imok"
		case "isro":
			want = "null"
		case "stmk":
			continue // it waits for its number
		case "vote":
			continue // that is when it is needed most
		case "gtmk":
			want = "306"
		case "hash":
			want = sentence
		case "envi":
			want = ""
		}
		got := askAt(t, e.Addr(3), name)
		if name == "envi" {
			got, _, _ = strings.Cut(got, "Environment:\n")
		}
		if got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestVotesOfAnElectionAreTold: who voted for whom, who has led since, and why there was an
// election.
func TestVotesOfAnElectionAreTold(t *testing.T) {
	e, ctx := startEnsemble(t, false)
	first := e.Leader()
	if err := e.Kill(first); err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc([]int{1, 2, 3}, func(id int) bool { return id == first })
	var leader int64
	if err := e.Await(ctx, func() bool { // at first both still serve, because they do not know yet
		leader = int64(e.Leader())
		return leader != 0 && leader != int64(first) && e.Server(others[0]).Serves() && e.Server(others[1]).Serves()
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range others {
		var all []electionEntry
		if err := json.Unmarshal([]byte(askAt(t, e.Addr(id), "vote")), &all); err != nil || len(all) < 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		last := all[len(all)-1]
		if last.Leader == nil || *last.Leader != leader || last.Decided < last.Began || last.Reason == "" || all[0].Reason != "" {
			t.Errorf("server %d: %+v", id, all)
		}
		for _, from := range others {
			mine := slices.IndexFunc(last.Votes, func(c cast) bool {
				return c.Server == int64(from) && c.State == "looking" && c.Zxid != "" && c.Round > 0
			})
			if mine < 0 {
				t.Errorf("server %d has no vote of server %d: %+v", id, from, last)
			}
		}
		if !slices.ContainsFunc(last.Votes, func(c cast) bool { return c.For == leader }) {
			t.Errorf("server %d: nobody voted for the leader: %+v", id, last)
		}
	}
}

// A server of three that has lost the others serves reads, after a while, to clients that
// accept a read-only server.
func TestReadOnlyServerSaysSo(t *testing.T) {
	e, ctx := startEnsemble(t, true)
	for id := 1; id <= 2; id++ {
		if err := e.Kill(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Await(ctx, func() bool { return e.Server(3).Role().Mode == server.ModeReadOnly }); err != nil {
		t.Fatal(err)
	}
	if got := askAt(t, e.Addr(3), "isro"); got != "ro" {
		t.Errorf("isro: %q", got)
	}
	srvr := askAt(t, e.Addr(3), "srvr")
	if !regexp.MustCompile(`^Zookeeper version: .*\nREAD-ONLY mode; serving only read-only clients\nLatency `).MatchString(srvr) ||
		!strings.Contains(srvr, "\nMode: read-only\n") {
		t.Errorf("srvr: %s", srvr)
	}
	if conf := askAt(t, e.Addr(3), "conf"); !strings.HasSuffix(conf, "\npeerType=0\n") {
		t.Errorf("conf: %s", conf)
	}
	if f := figuresOf(t, e.Addr(3)); f["zk_server_state"] != "read-only" {
		t.Errorf("mntr: %v", f)
	}
}
