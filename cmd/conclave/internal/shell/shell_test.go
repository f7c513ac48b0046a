package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/zk"
)

// shown collects the output of a shell while other goroutines print.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *shown) await(t *testing.T, text string) {
	t.Helper()
	awaittest.Until(t, fmt.Sprintf("%q is printed", text), func() bool { return strings.Contains(s.String(), text) })
}

// TestChangesOfOthersArePrintedAsTheyHappen, in the foreground until the context ends, and
// while a line is typed.
func TestChangesOfOthersArePrintedAsTheyHappen(t *testing.T) {
	e := serve(t, 1)
	var one, other shown
	s, o := connected(t, e.Addr(1), &one), connected(t, e.Addr(1), &other)
	run := func(s *Shell, line string) {
		t.Helper()
		if code := s.Run(t.Context(), line); code != 0 {
			t.Errorf("%s: code %d: %s%s", line, code, one.String(), other.String())
		}
	}
	run(o, "create /w")
	run(s, "watch -b -r /w")
	run(s, "addWatch /w")
	run(o, "create /w/a")
	one.await(t, " NodeCreated /w/a\n")
	one.await(t, "type:NodeCreated path:/w/a zxid: ")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	s2 := connected(t, e.Addr(1), &other, func(o *Options) { o.Person = true })
	go func() { ended <- s2.Run(ctx, "watch /w/a") }()
	other.await(t, "watching /w/a")
	run(s, "set /w/a x")
	other.await(t, " NodeDataChanged /w/a\n")
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("a watch that is interrupted ends with %d", code)
	}
	done := make(chan int, 1)
	go func() { done <- s2.Run(t.Context(), "watch -n 2 /w/a") }()
	awaittest.Until(t, "two changes are seen", func() bool {
		run(s, "set /w/a y")
		select {
		case code := <-done:
			return code == 0
		default:
			return false
		}
	})
}

// TestSessionThatExpiresIsRenewed: the shell says so, and the new session has the same
// credentials.
func TestSessionThatExpiresIsRenewed(t *testing.T) {
	e := serve(t, 1)
	var text shown
	s := connected(t, e.Addr(1), &text, func(o *Options) {
		o.Open = func(string) (*client.Client, error) {
			return client.New(e.Addr(1), client.Options{SessionTimeout: 2 * time.Second})
		}
	})
	for _, line := range []string{"addauth digest bob:secret", `create /mine "" auth::cdrwa`, "create -e /here", "addWatch /mine", "watch -b /mine"} {
		if code := s.Run(t.Context(), line); code != 0 {
			t.Fatalf("%s: %s", line, text.String())
		}
	}
	before := s.conn.SessionID()
	e.Kill(1)
	text.await(t, "the connection was lost: looking for a server")
	if !strings.Contains(s.Prompt(), "(suspended)") && !strings.Contains(s.Prompt(), "(lost)") && !strings.Contains(s.Prompt(), "(connecting)") {
		t.Errorf("the prompt is %q", s.Prompt())
	}
	text.await(t, "has expired: its ephemerals and watches are gone")
	if err := e.Start(1); err != nil {
		t.Fatal(err)
	}
	text.await(t, "new session: 0x")
	if s.conn.SessionID() == before {
		t.Error("the session is the old one")
	}
	if code := s.Run(t.Context(), "get /mine"); code != 0 {
		t.Errorf("the credential is gone: %s", text.String())
	}
	awaittest.Until(t, "the ephemeral goes", func() bool { return s.Run(t.Context(), "stat /here") == 1 })
}

// TestServersThatComeBackAreSaid, and the session lives on.
func TestServersThatComeBackAreSaid(t *testing.T) {
	e := serve(t, 1)
	var text shown
	s := connected(t, e.Addr(1), &text)
	e.Kill(1)
	text.await(t, "the connection was lost")
	if err := e.Start(1); err != nil {
		t.Fatal(err)
	}
	text.await(t, "lives on")
	if code := s.Run(t.Context(), "ls /"); code != 0 {
		t.Error(text.String())
	}
}

// TestWhatAServerDoesNotAnswerIsSaid: a command has a time limit, and can be interrupted.
func TestWhatAServerDoesNotAnswerIsSaid(t *testing.T) {
	e := serve(t, 1)
	var text shown
	s := connected(t, e.Addr(1), &text, func(o *Options) { o.Timeout = 100 * time.Millisecond })
	e.Kill(1)
	for _, line := range []string{"get /", "create /a", "connect"} {
		if code := s.Run(t.Context(), line); code != 1 {
			t.Errorf("%s: code %d", line, code)
		}
	}
	for _, want := range []string{"no answer within 100ms", "no session within 100ms"} {
		text.await(t, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Run(ctx, "ls -R /"); !strings.Contains(text.String(), "interrupted") {
		t.Error(text.String())
	}
	for err, want := range map[error]string{
		&client.Error{Op: zk.OpSetData, Err: context.DeadlineExceeded, Outcome: client.Unknown}: "no answer within 100ms: the write may have happened or not",
		&client.Error{Op: zk.OpSetData, Err: context.Canceled, Outcome: client.Unknown}:         "interrupted: the write may have happened or not",
		&client.Error{Op: zk.OpGetData, Err: context.Canceled, Outcome: client.NotApplied}:      "interrupted",
		errors.New("a\x1b[2Jb"): "a\uFFFD[2Jb",
	} {
		if got := s.reason(err); got != want {
			t.Errorf("%v is shown as %q, want %q", err, got, want)
		}
	}
}

// TestBigDirectoriesCompleteInPages: matching names are found among any number of children,
// as far as time permits, and the shell says if there may be more; it then does not insert
// the common prefix of the names that it shows.
func TestBigDirectoriesCompleteInPages(t *testing.T) {
	e := serve(t, 1)
	var text shown
	s := connected(t, e.Addr(1), &text)
	s.completeWithin = time.Minute
	ops := []client.Operation{client.CreateOp("/big", nil, client.CreateOptions{})}
	for i := range completeChildren {
		ops = append(ops, client.CreateOp(fmt.Sprintf("/big/%05d", i), nil, client.CreateOptions{}))
	}
	for len(ops) > 0 {
		n := min(len(ops), 2000)
		if _, err := s.conn.Multi(t.Context(), ops[:n]...); err != nil {
			t.Fatal(err)
		}
		ops = ops[n:]
	}
	offers := func(line string, want int, first string) {
		t.Helper()
		if found, _ := s.Complete(line); len(found) != want || want > 0 && found[0] != first {
			t.Errorf("%s: %d are offered, %.60q first", line, len(found), found)
		}
	}
	offers("get /big/", completionsFew+1, "")
	text.await(t, "conclave: the first 40 of 10000 that fit\n")
	offers("get /big/0999", 10, "0")
	for _, name := range []string{"one-more", "zebra"} {
		if code := s.Run(t.Context(), "create /big/"+name); code != 0 {
			t.Fatal(text.String())
		}
	}
	offers("get /big/", completionsFew+1, "")
	text.await(t, "conclave: /big has 10002 children, 10000 of which were looked at: there may be others that fit\n")
	said := text.String()
	offers("get /big/z", 1, "ebra")
	offers("get /big/0999", 10, "0")
	offers("get /big/x", 0, "")
	if s.Complete("get /big/z"); text.String() != said {
		t.Errorf("all were looked at, and it is said that\n%s", text.String()[len(said):])
	}
	s.unpaged = s.conn // as after the answer of a server that does not support pages
	offers("get /big/z", 0, "")
	text.await(t, "10002 children, 0 of which were looked at")
	s.unpaged, s.completeWithin = nil, time.Second
	e.Kill(1)
	began := time.Now()
	if found, _ := s.Complete("get /"); len(found) != 0 || time.Since(began) > 15*time.Second {
		t.Errorf("%q after %v, while no server answers", found, time.Since(began))
	}
}

// TestReconfig on three servers: by single changes, by a whole list and by a file.
func TestReconfig(t *testing.T) {
	e := serve(t, 3)
	var text shown
	s := connected(t, strings.Join(e.Addrs(), ","), &text)
	run := func(line string, want int) string {
		t.Helper()
		before := len(text.String())
		if code := s.Run(t.Context(), line); code != want {
			t.Errorf("%s: code %d: %s", line, code, text.String()[before:])
		}
		return text.String()[before:]
	}
	config := run("config", 0)
	if strings.Count(config, "server.") != 3 || !strings.Contains(config, "version=") {
		t.Errorf("config: %s", config)
	}
	if got := run("config -c", 0); strings.Count(got, ",") != 2 || strings.Contains(got, "server.") {
		t.Errorf("config -c: %s", got)
	}
	if got := run("reconfig -remove 3", 1); !strings.Contains(got, "Insufficient permission") && !strings.Contains(got, "not authorized") {
		t.Errorf("reconfig: %s", got)
	}
	if got := run("reconfig -v 7ffffff -remove 3", 1); got == "" {
		t.Error("a reconfig without the right says nothing")
	}
}

// TestQuotasAreNotSoughtBelowAPathOfServers, where they would be ordinary znodes.
func TestQuotasAreNotSoughtBelowAPathOfServers(t *testing.T) {
	e := serve(t, 1)
	var text shown
	root := connected(t, e.Addr(1), &text)
	if root.Run(t.Context(), "create /app"); root.Run(t.Context(), "create /app/a") != 0 {
		t.Fatal(text.String())
	}
	s := connected(t, e.Addr(1)+"/app", &text)
	for _, line := range []string{"setquota -n 1 /a", "listquota /a", "delquota /a"} {
		if code := s.Run(t.Context(), line); code != 1 || !strings.Contains(text.String(), "quotas are outside") {
			t.Errorf("%s: code %d: %s", line, code, text.String())
		}
	}
	if s.Run(t.Context(), "ls /"); !strings.Contains(text.String(), "[a]\n") {
		t.Error(text.String())
	}
}

// TestColorsAreOnlyWhereTheyAreWanted.
func TestColorsAreOnlyWhereTheyAreWanted(t *testing.T) {
	e := serve(t, 1)
	for _, color := range []bool{false, true} {
		var text shown
		s := connected(t, e.Addr(1), &text, func(o *Options) { o.Color = color })
		s.Run(t.Context(), "get /nope")
		s.Run(t.Context(), "stat -w /new")
		s.Run(t.Context(), "create /new")
		s.Run(t.Context(), "delete /new")
		if got := strings.Contains(text.String(), "\x1b[31mNode does not exist: /nope\x1b[0m\n") && strings.Contains(text.String(), "\x1b[36m\nWATCHER::"); got != color {
			t.Errorf("color %t: %q", color, text.String())
		}
		if strings.Contains(text.String(), "\x1b") != color {
			t.Errorf("color %t: %q", color, text.String())
		}
	}
}

// TestCredentialsAreNotKept in the saved history.
func TestCredentialsAreNotKept(t *testing.T) {
	for line, want := range map[string]bool{
		"get /a": true, "set /a 'b c'": true, "": false, " get /a": false, "\tget /a": false,
		"addauth digest bob:secret": false, "AddAuth digest x": false, `"addauth" digest x:y`: false,
		"setAcl /a digest:bob:h=:cdrwa": false, "create /a x auth::cdrwa": true, "connect zk://a:b@c:1": false, "get /a@b": true,
		"adauth digest bob:secret": false, "auth Digest bob:secret": false, "set /a digest": true, "set /digest a:b": true,
		"get /a\nget /b": false,
	} {
		if Kept(line) != want {
			t.Errorf("%q is kept: %t", line, !want)
		}
	}
}

// TestEveryCommandIsExplained, and its options are in its syntax.
func TestEveryCommandIsExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range table() {
		if c.name == "" || c.about == "" || c.run == nil || seen[c.name] {
			t.Errorf("%+v", c.name)
		}
		seen[c.name] = true
		for _, o := range c.options {
			if !strings.Contains(c.syntax, "-"+o.name) || o.about == "" {
				t.Errorf("%s: -%s is not in %q, or not explained", c.name, o.name, c.syntax)
			}
		}
	}
	if len(Names()) != len(seen) || Offline("get") || !Offline("help") || !Offline("nothing") || Offline("connect") {
		t.Error("Names, or Offline")
	}
}
