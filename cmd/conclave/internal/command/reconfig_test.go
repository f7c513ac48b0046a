package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/spf13/cobra"
)

// startServers starts an ensemble and returns when all its servers serve.
func startServers(t *testing.T, servers, observers int, change func(base *server.Config)) *inprocess.Ensemble {
	t.Helper()
	base := devConfig()
	base.PreallocBytes, base.ReconfigEnabled, base.Auth.SkipACL = 64<<10, true, true
	if change != nil {
		change(&base)
	}
	e, err := inprocess.Start(inprocess.Options{Servers: servers, Observers: observers, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := e.Await(ctx, func() bool { return serving(e) }); err != nil {
		t.Fatal(err)
	}
	return e
}

// play runs one command within this process.
func play(t *testing.T, c *cobra.Command, args ...string) (out, said string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c.SetOut(&stdout)
	c.SetErr(&stderr)
	c.SetArgs(args)
	c.SilenceErrors, c.SilenceUsage = true, true
	err = c.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// reconfigures runs a reconfig, and returns what it printed as JSON.
func reconfigures(t *testing.T, e *inprocess.Ensemble, args ...string) (p changePlan, err error) {
	t.Helper()
	out, _, err := play(t, newReconfig(), append(args, "--json", "--server", strings.Join(e.Addrs(), ","))...)
	if out != "" {
		if bad := json.Unmarshal([]byte(out), &p); bad != nil {
			t.Fatalf("%v\n%s", bad, out)
		}
	}
	return p, err
}

// roles returns the roles in a configuration, by id.
func roles(c configured) string {
	var all []string
	for _, s := range c.Servers {
		all = append(all, fmt.Sprintf("%d %s", s.ID, s.Role))
	}
	return strings.Join(all, ", ")
}

// follower returns the id of one of three servers that does not lead.
func follower(e *inprocess.Ensemble) string { return fmt.Sprint(e.Leader()%3 + 1) }

func TestReconfigChangesWhoVotes(t *testing.T) {
	e := startServers(t, 3, 1, nil)
	at := strings.Join(e.Addrs(), ",")
	plan, err := reconfigures(t, e, "--promote", "4", "--dry-run")
	if err != nil || plan.Applied || !plan.Quorum || roles(plan.After) != "1 participant, 2 participant, 3 participant, 4 participant" {
		t.Fatalf("dry run: %+v, %v", plan, err)
	}
	if plan.Before.Quorum != "2 of 3" || plan.After.Quorum != "3 of 4" || plan.After.Client != at {
		t.Errorf("dry run: %+v", plan)
	}
	shown, _, err := play(t, newConfig(), "--server", at)
	if err != nil || !strings.Contains(shown, "server.4=") || !strings.Contains(shown, ":observer;") || !strings.Contains(shown, "version="+plan.Before.Version+"\n") {
		t.Fatalf("after the dry run: %s, %v", shown, err)
	}
	if shown, _, err = play(t, newConfig(), "--server", e.Addr(1), "--client"); err != nil || shown != at+"\n" {
		t.Errorf("for clients: %q, %v, expected %q", shown, err, at)
	}

	plan, err = reconfigures(t, e, "--promote", "4", "--version", plan.Before.Version)
	if err != nil || !plan.Applied || plan.After.Version == "0" || plan.After.Version == plan.Before.Version {
		t.Fatalf("promote: %+v, %v", plan, err)
	}
	for _, s := range plan.Servers {
		if !s.InSync || !s.InForce {
			t.Errorf("promote: %+v", s)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	if err := e.Await(ctx, func() bool { m := e.Server(4).Role().Mode; return m == server.ModeFollower || m == server.ModeLeader }); err != nil {
		t.Errorf("server 4 is %v", e.Server(4).Role().Mode)
	}

	one := follower(e)
	if plan, err = reconfigures(t, e, "--demote", one); err != nil || !strings.Contains(roles(plan.After), one+" observer") {
		t.Fatalf("demote %s: %+v, %v", one, plan, err)
	}
	if _, err = reconfigures(t, e, "--demote", one); exitOf(err) != cli.ExitUsage {
		t.Errorf("a second time: %v", err)
	}
}

func TestReconfigReplacesServers(t *testing.T) {
	e := startServers(t, 3, 1, nil)
	one := follower(e)
	plan, err := reconfigures(t, e, "--remove", one, "--promote", "4")
	if err != nil || !plan.Applied || strings.Contains(roles(plan.After), one+" ") || len(plan.Servers) != 3 {
		t.Fatalf("remove %s: %+v, %v", one, plan, err)
	}
	line := ""
	for _, s := range plan.Before.Servers {
		if fmt.Sprint(s.ID) == one {
			line = one + "=" + strings.Replace(s.Line, "participant", "observer", 1)
		}
	}
	again, err := reconfigures(t, e, "--add", line)
	if err != nil || !again.Applied || !strings.Contains(roles(again.After), one+" observer") || again.Before.Version != plan.After.Version {
		t.Fatalf("add %s: %+v, %v", line, again, err)
	}
	// The whole membership from a file: as it was at the beginning.
	var text string
	for _, s := range plan.Before.Servers {
		text += fmt.Sprintf("server.%d=%s\n", s.ID, s.Line)
	}
	file := filepath.Join(t.TempDir(), "zoo.cfg.dynamic")
	if err := os.WriteFile(file, []byte(text+"version=77\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	whole, err := reconfigures(t, e, "--file", file)
	if err != nil || !whole.Applied || roles(whole.After) != roles(plan.Before) {
		t.Fatalf("file: %+v, %v", whole, err)
	}
	if same, err := reconfigures(t, e, "--file", file); err != nil || same.Applied {
		t.Errorf("a second time: %+v, %v", same, err)
	}
}

// TestPortThatCannotBeOpenedIsSeen has a reconfig that gives a server an address of another
// machine. Apache's servers accept this too, and then serve no client there. The server goes on
// serving where it did, and reports the failure.
func TestPortThatCannotBeOpenedIsSeen(t *testing.T) {
	e := startServers(t, 3, 0, nil)
	one := follower(e)
	now, _, err := asJSON[configured](t, newConfig(), "--server", e.Addr(1))
	if err != nil {
		t.Fatal(err)
	}
	line := ""
	for _, s := range now.Servers {
		if fmt.Sprint(s.ID) == one {
			line = one + "=" + s.Line[:strings.LastIndex(s.Line, ";")+1] + "192.0.2.1:2181"
		}
	}
	plan, _ := reconfigures(t, e, "--add", line, "--timeout", "2s", "--wait", "1s", "--force") // nobody answers there
	if !plan.Applied {
		t.Fatalf("%+v", plan)
	}
	at := e.Addrs()[number(one)-1]
	var said string
	awaittest.Until(t, "the status tells", func() bool {
		_, said, _ = play(t, newStatus(), "--server", at, "--only")
		return said != ""
	})
	if !strings.HasPrefix(said, "conclave: "+at+" cannot open a port, and tries it each second: clientPort 192.0.2.1:2181: this machine has no such address") {
		t.Errorf("it says %q", said)
	}
	report := admin.Commands{}.Report(e.Server(number(one)), "server_stats", nil)
	if text, err := json.Marshal(report); err != nil || !strings.Contains(string(text), `"ports_failed":["clientPort 192.0.2.1:2181: `) {
		t.Errorf("the admin port says %s, %v", text, err)
	}
}

func exitOf(err error) int { return cli.Report(&bytes.Buffer{}, err) }

// TestReconfigWithoutAQuorumIsNotProposed tries to add three servers that nobody has started to
// three that serve. The servers refuse it too.
func TestReconfigWithoutAQuorumIsNotProposed(t *testing.T) {
	e := startServers(t, 3, 0, nil)
	var lines []string
	for id := 4; id <= 6; id++ {
		lines = append(lines, "--add", fmt.Sprintf("server.%d=127.0.0.1:1:2;127.0.0.1:%d", id, id))
	}
	lines = append(lines, "--timeout", "2s")
	plan, err := reconfigures(t, e, lines...)
	if exitOf(err) != cli.ExitFailed || !strings.Contains(err.Error(), "nothing was proposed") || plan.Quorum || plan.Applied {
		t.Fatalf("%+v, %v", plan, err)
	}
	for _, s := range plan.Servers {
		if s.InSync != (s.ID <= 3) || s.InSync == (s.Why != "") {
			t.Errorf("%+v", s)
		}
	}
	var hinted *cli.Error
	plan, err = reconfigures(t, e, append(lines, "--force")...)
	if plan.Applied || !errors.As(err, &hinted) || !strings.Contains(err.Error(), "no quorum of the new configuration is connected") {
		t.Fatalf("forced: %+v, %v", plan, err)
	}
	// A majority that is in sync is enough, but the missing servers are shown.
	out, _, err := play(t, newReconfig(), "--add", lines[1], "--dry-run", "--timeout", "2s", "--server", e.Addr(1))
	if err != nil || !strings.Contains(out, "+ server.4=127.0.0.1:1:2:participant;127.0.0.1:4\n") || !strings.Contains(out, "dial tcp 127.0.0.1:4: ") {
		t.Fatalf("%s%v", out, err)
	}
	if _, err := reconfigures(t, e, "--remove", "3", "--version", "7"); exitOf(err) != cli.ExitFailed || !strings.Contains(err.Error(), "not 7") {
		t.Errorf("another version: %v", err)
	}
}

// TestReconfigTellsServersOfAnotherEnsemble has, at the address of the new server, the leader of
// another ensemble. The plan must say that, and not that there was no time to look again.
func TestReconfigTellsServersOfAnotherEnsemble(t *testing.T) {
	e := startServers(t, 3, 0, nil)
	other := startServers(t, 3, 0, func(base *server.Config) { base.FourLetterWords = []string{"srvr"} }) // no id is reported
	at := other.Addr(other.Leader())
	for range 10 { // so that it is not behind
		if _, _, err := play(t, newConfig(), "--server", at); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := reconfigures(t, e, "--add", "server.4=127.0.0.1:1:2;"+lagging(t, at, 0, 1, new(atomic.Int32)), "--dry-run", "--timeout", "10s")
	if err != nil || len(plan.Servers) != 4 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if s := plan.Servers[3]; s.InSync || s.Mode != "leader" || !strings.Contains(s.Why, "another configuration") {
		t.Errorf("%+v", s)
	}
}

func TestReconfigNeedsARight(t *testing.T) {
	e := startServers(t, 3, 1, func(base *server.Config) { base.Auth.SkipACL = false })
	var hinted *cli.Error
	if _, err := reconfigures(t, e, "--promote", "4"); !errors.As(err, &hinted) || !strings.Contains(hinted.Hint, "/zookeeper/config") {
		t.Errorf("%v", err)
	}
	for args, want := range map[string]int{
		"--remove 9":               cli.ExitUsage,
		"--promote x":              cli.ExitUsage,
		"--add server.4=nonsense":  cli.ExitUsage,
		"--file nowhere":           cli.ExitUsage,
		"--remove 1 --version zoo": cli.ExitUsage,
	} {
		if _, err := reconfigures(t, e, strings.Fields(args)...); exitOf(err) != want {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestStandaloneServerHasNoConfiguration(t *testing.T) {
	e := startServers(t, 1, 0, nil)
	if _, _, err := play(t, newConfig(), "--server", e.Addr(1)); exitOf(err) != cli.ExitNotFound {
		t.Errorf("%v", err)
	}
}

// lagging is a proxy in front of a server. It reports an old zxid the given number of times, and no
// id. It lets the given number of sessions through, and does not answer the others. told counts the
// requests for the zxid.
func lagging(t *testing.T, server string, times, sessions int32, told *atomic.Int32) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	var passed atomic.Int32
	serve := func(front net.Conn) {
		defer front.Close()
		head := make([]byte, 4)
		if _, err := io.ReadFull(front, head); err != nil {
			return
		}
		switch string(head) {
		case "conf", "mntr":
			fmt.Fprintf(front, "%s %s.\n", head, notAllowed)
			return
		case "srvr":
			if told.Add(1) <= times {
				fmt.Fprint(front, "Zookeeper version: 3.9.5\nZxid: 0x1\nMode: follower\n")
				return
			}
		default:
			if passed.Add(1) > sessions {
				_, _ = io.Copy(io.Discard, front)
				return
			}
		}
		back, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer back.Close()
		_, _ = back.Write(head)
		all.Go(func() {
			_, _ = io.Copy(back, front)
			back.Close()
		})
		_, _ = io.Copy(front, back)
	}
	all.Go(func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { serve(front) })
		}
	})
	return l.Addr().String()
}

// TestReconfigWaitsForAServerThatIsBehind waits as long as the timeout allows. The timeout grows if
// a busy machine has no time for a second look.
func TestReconfigWaitsForAServerThatIsBehind(t *testing.T) {
	e := startServers(t, 3, 0, nil)
	behind := func(times int32, timeout time.Duration) (s looked, looks int32, err error) {
		var told atomic.Int32
		line := "server.4=127.0.0.1:1:2;" + lagging(t, e.Addr(e.Leader()), times, math.MaxInt32, &told)
		plan, err := reconfigures(t, e, "--add", line, "--dry-run", "--timeout", timeout.String())
		if len(plan.Servers) == 4 {
			s = plan.Servers[3]
		}
		return s, told.Load(), err
	}
	if s, looks, err := behind(2, awaittest.Patience); err != nil || s.Why != "" || !s.InSync || looks < 3 {
		t.Errorf("behind twice: %+v after %d looks, %v", s, looks, err)
	}
	looks := int32(0)
	for timeout := 2 * time.Second; looks < 2; timeout *= 2 {
		var s looked
		var err error
		if s, looks, err = behind(math.MaxInt32, timeout); looks >= 2 && (err != nil || s.Why != "it is behind" || s.InSync) {
			t.Errorf("behind for ever: %+v after %d looks, %v", s, looks, err)
		}
	}
}

// TestLookThatItsDeadlineEndsTellsNothing must hold even if the timer of its context comes late.
func TestLookThatItsDeadlineEndsTellsNothing(t *testing.T) {
	if isOver(t.Context()) || isOver(awaittest.Within(t)) || !isOver(passed{t.Context()}) {
		t.Error("it is over when its deadline has passed, and not before")
	}
}

// passed is a context whose deadline has just passed.
type passed struct{ context.Context }

func (passed) Deadline() (time.Time, bool) { return time.Now(), true }
