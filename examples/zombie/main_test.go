//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

// lease is the lease of the test, pause the time between two numbers.
const (
	lease = time.Second
	pause = 2 * time.Millisecond
)

// childEnv makes the test binary run the program. It contains the servers and the
// file.
const childEnv = "CONCLAVE_ZOMBIE_TEST"

func TestMain(m *testing.M) {
	if servers, path, isChild := strings.Cut(os.Getenv(childEnv), " "); isChild {
		if err := run(context.Background(), servers, path, lease, pause, os.Stdout); err != nil {
			fmt.Println("ended:", err)
		}
		return
	}
	os.Exit(m.Run())
}

// process is one candidate.
type process struct {
	command *exec.Cmd
	token   election.Token // of its last number
	refused int            // how often it was refused as a zombie
}

// story is everything that the processes have printed.
type story struct {
	mu      sync.Mutex
	changed chan struct{}
	counted int      // numbers that were acknowledged
	leader  *process // the last one that counted
	leads   election.Token
	leaders int
	wrong   []string
}

func (s *story) tell(p *process, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n int
	var token election.Token
	switch {
	case strings.HasPrefix(line, "leads"):
		_, _ = fmt.Sscanf(line, "leads with token %d", &token)
		s.leads = max(s.leads, token)
		s.leaders++
	case strings.HasPrefix(line, "counted"):
		_, _ = fmt.Sscanf(line, "counted %d with token %d", &n, &p.token)
		s.counted++
		s.leader = p
	case strings.HasPrefix(line, "refused"):
		p.refused++
	case line != "waiting":
		s.wrong = append(s.wrong, line)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// await waits until a condition holds.
func (s *story) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	late := time.After(patience)
	for {
		s.mu.Lock()
		done, changed := so(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (s *story) start(t *testing.T, servers, path string, group *sync.WaitGroup) *process {
	p := &process{command: exec.Command(os.Args[0])}
	p.command.Env = append(os.Environ(), childEnv+"="+servers+" "+path)
	out, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	childtest.Start(t, p.command)
	group.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.tell(p, lines.Text())
		}
		_ = p.command.Wait()
	})
	return p
}

// This is scenario-E01 on real processes: the leader is frozen at random until
// another process leads, and goes on counting when it wakes. Each number must have
// been counted once.
func TestFrozenLeadersLoseNoNumber(t *testing.T) {
	const freezes = 4
	e := conclavetest.Start(t)
	path := filepath.Join(t.TempDir(), "count")
	s := &story{changed: make(chan struct{})}
	var group sync.WaitGroup
	var all []*process
	for range 3 {
		all = append(all, s.start(t, e.Servers(), path, &group))
	}
	for range freezes {
		s.freeze(t)
	}
	for _, p := range all {
		_ = p.command.Process.Kill()
	}
	group.Wait()
	content, err := fence.NewFile(path).Read()
	n := 0
	if _, errScan := fmt.Sscan(string(content.Data), &n); err != nil || errScan != nil {
		t.Fatal(err, errScan)
	}
	// The last write of a process that was killed may not have been reported.
	if lost := s.counted - n; lost > 0 || lost < -1 || len(s.wrong) > 0 {
		t.Errorf("the file says %d, %d were counted; %q", n, s.counted, s.wrong)
	}
	t.Logf("%d numbers, %d leaders", n, s.leaders)
}

// freeze makes a zombie of the process that counts, and sees it refused.
func (s *story) freeze(t *testing.T) {
	t.Helper()
	var zombie *process
	var frozen process // a copy of the zombie from before
	counted := -1
	s.await(t, "some numbers", func() bool {
		if counted < 0 {
			counted = s.counted
		}
		if zombie = s.leader; zombie != nil {
			frozen = *zombie
		}
		return s.counted > counted+20
	})
	awaittest.RealTime(time.Duration(rand.Int64N(int64(pause))), "it is anywhere between two writes, or in one")
	if err := frozen.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// If a zombie was frozen within a write, it holds the lock of the file. Its
	// successor leads, but can count only when the zombie is awake again.
	s.await(t, "the next leader", func() bool { return s.leads > frozen.token })
	if err := frozen.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.await(t, "the zombie to be refused", func() bool { return zombie.refused > frozen.refused })
}
