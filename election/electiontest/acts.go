package electiontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/supervise"
)

// Candidates with a command: `conclave run`, with its guardian, in a process of the suite. What
// counts is not what they assume, but what their commands do.

// actorEnv makes this binary the command of a leader, which acts on the file that the variable
// names.
const actorEnv = "CONCLAVE_ELECTIONTEST_ACTOR"

// actPause is the pause between two acts.
const actPause = 2 * time.Millisecond

// supervise campaigns and runs the command while leading. The command has a
// quarter of the lease to end, and does not use it.
func (o order) supervise(ctx context.Context, elector *election.Elector) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	_, err = supervise.Run(ctx, elector, supervise.Command{Args: []string{self},
		Env: append(os.Environ(), actorEnv+"="+o.Acts), Grace: o.Lease / 4,
		OnRemark: func(err error) { fmt.Fprintln(os.Stderr, o.ID, err) }})
	return err
}

// act is the whole life of a command: it writes down who acts, with which token and when, until
// it is killed. It ignores SIGTERM. When its file is gone, the test is over.
func act(path string) int {
	signal.Ignore(syscall.SIGTERM)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 1
	}
	who := os.Getenv("CONCLAVE_ID") + " " + os.Getenv("CONCLAVE_TOKEN")
	for {
		if _, err := fmt.Fprintln(file, who, int64(clock.Now())); err != nil {
			return 1
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return 1
		}
		time.Sleep(actPause)
	}
}

// acts is what all commands of a test have done.
type acts struct {
	t      testing.TB
	suite  Suite
	path   string
	file   *os.File
	rest   []byte // the beginning of a line
	spans  []span
	latest span
}

func (s Suite) newActs(t testing.TB) *acts {
	t.Helper()
	path := filepath.Join(t.TempDir(), "acts")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return &acts{t: t, suite: s, path: path, file: file}
}

// read reads what was done since the last call.
func (a *acts) read() {
	news, err := io.ReadAll(a.file)
	if err != nil {
		a.t.Fatal(err)
	}
	lines := bytes.Split(append(a.rest, news...), []byte("\n"))
	a.rest = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		var b span
		if _, err := fmt.Sscan(string(line), &b.who, (*uint64)(&b.token), (*int64)(&b.from)); err != nil {
			a.t.Fatalf("a command wrote %q: %v", line, err)
		}
		b.to = b.from
		a.add(b)
	}
}

// add records one act.
func (a *acts) add(b span) {
	a.latest = b
	for i := range a.spans {
		if old := &a.spans[i]; old.who == b.who && old.token == b.token {
			old.to = b.to
			return
		}
	}
	a.spans = append(a.spans, b)
}

// awaitBy returns what a candidate does with a higher token than after, once it has done so for
// a while, by when a second one that still acts would be seen. On a busy machine, another
// candidate may lead in between; awaitBy then calls again, if not nil, to repeat what made that
// candidate lose the lead.
func (a *acts) awaitBy(id string, after election.Token, again func()) span {
	a.t.Helper()
	known := after
	for limit := time.Now().Add(a.suite.patience()); time.Now().Before(limit); time.Sleep(actPause) {
		a.read()
		if a.latest.who != id && a.latest.token > known && again != nil {
			known = a.latest.token
			again()
		}
		if a.latest.who != id || a.latest.token <= after {
			continue
		}
		for _, b := range a.spans {
			if b.who == id && b.token == a.latest.token && b.to.Sub(b.from) >= a.suite.Lease/10 {
				return b
			}
		}
	}
	a.t.Fatalf("waited %v in vain until the command of %s acts; what was done: %+v", a.suite.patience(), id, a.spans)
	panic("unreachable")
}

// last returns when a candidate last acted with a token.
func (a *acts) last(id string, token election.Token) (at clock.Instant) {
	for _, b := range a.spans {
		if b.who == id && b.token == token {
			at = b.to
		}
	}
	return at
}

// awaitSilence returns once the command of the candidate, if it acted last, has not acted for
// half a lease.
func (a *acts) awaitSilence(id string) {
	a.t.Helper()
	for limit := time.Now().Add(a.suite.patience()); time.Now().Before(limit); time.Sleep(actPause) {
		a.read()
		if a.latest.who != id || clock.Now().Sub(a.latest.to) > a.suite.Lease/2 {
			return
		}
	}
	a.t.Fatalf("waited %v in vain until the command of %s ends", a.suite.patience(), id)
}

// history returns what was done, for the judge.
func (a *acts) history() *history {
	a.read()
	return &history{spans: a.spans}
}

// guardian returns the process id of the guardian of a run, or 0 if it has none because it does
// not lead.
func (p *process) guardian() int {
	p.t.Helper()
	pid := p.command.Process.Pid
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread that has ended has no list
		for child := range strings.FieldsSeq(string(text)) {
			line, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if bytes.Contains(line, []byte("\x00"+supervise.GuardianArg+"\x00")) {
				guardian := 0
				_, _ = fmt.Sscan(child, &guardian)
				return guardian
			}
		}
	}
	return 0
}
