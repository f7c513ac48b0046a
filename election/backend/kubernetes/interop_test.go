//go:build conformance

package kubernetes

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
)

// candidateEnv makes the test binary a candidate: "URL ID".
const candidateEnv = "CONCLAVE_KUBERNETES_CANDIDATE"

// The leases of both kinds. Ours leaves client-go the smallest margin: nothing is rounded up.
const (
	ourLease      = 3 * time.Second
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

// runCandidate campaigns until its standard input ends, and writes what
// test/interop/clientgo writes, followed by the token.
func runCandidate(order string) int {
	address, id, _ := strings.Cut(order, " ")
	backend, end, err := Open(context.Background(), address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = end() }()
	elector, err := election.New(backend, "shared", election.Options{ID: id, Lease: ourLease})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if lines.Text() == "resign" {
				_ = elector.Resign(ctx)
			}
		}
		cancel()
	}()
	_ = elector.Run(ctx, func(_ context.Context, lead election.Leadership) error {
		fmt.Println("elected", int64(clock.Now()), uint64(lead.Token()))
		last := clock.Now()
		for now := last; lead.Err() == nil; now = clock.Now() {
			last = now
			awaittest.RealTime(time.Millisecond, "it looks often, and keeps no processor busy")
		}
		fmt.Println("ended", int64(last))
		return nil
	})
	return 0
}

// peer is a candidate process of either kind.
type peer struct {
	t       testing.TB
	id      string
	history *history
	elected chan<- *peer
	command *exec.Cmd
	stdin   io.WriteCloser
	link    *servers.Link // its own link to the server; nil for client-go
	done    chan struct{}

	mu   sync.Mutex
	open *span // nil while it does not lead
}

func startPeer(t testing.TB, h *history, elected chan<- *peer, id string, command *exec.Cmd) *peer {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	command.Stderr = log
	p := &peer{t: t, id: id, history: h, elected: elected, command: command, done: make(chan struct{})}
	var errIn, errOut error
	p.stdin, errIn = command.StdinPipe()
	stdout, errOut := command.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	childtest.Start(t, command)
	go p.read(stdout)
	t.Cleanup(func() {
		p.kill()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", id, text[max(0, len(text)-4000):])
		}
	})
	return p
}

func (p *peer) read(stdout io.Reader) {
	defer close(p.done)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var kind string
		var at int64
		var token uint64
		if n, _ := fmt.Sscan(lines.Text(), &kind, &at, &token); n < 2 {
			p.t.Errorf("%s wrote %q", p.id, lines.Text())
			continue
		}
		if kind == "ended" {
			p.end(clock.Instant(at))
			continue
		}
		p.mu.Lock()
		p.open = &span{who: p.id, token: election.Token(token), from: clock.Instant(at)}
		p.mu.Unlock()
		p.elected <- p
	}
}

// end records the span that is open, if there is one.
func (p *peer) end(at clock.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open != nil {
		p.open.to = at
		p.history.add(*p.open)
		p.open = nil
	}
}

// kill ends the process with SIGKILL. It led until then.
func (p *peer) kill() {
	before := clock.Now()
	_ = p.command.Process.Kill()
	<-p.done
	_ = p.command.Wait()
	p.end(before)
}

// signal reaches the process unless it has ended.
func (p *peer) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.command.Process.Signal(sig)
	}
}

// awaitEnd returns once the process has reported until when it led, or has ended.
func (p *peer) awaitEnd() {
	p.t.Helper()
	limit := time.After(time.Minute)
	for tick := time.NewTicker(time.Millisecond); ; {
		p.mu.Lock()
		ended := p.open == nil
		p.mu.Unlock()
		if ended {
			return
		}
		select {
		case <-p.done:
			return
		case <-tick.C:
		case <-limit:
			p.t.Fatalf("%s considers itself leader a minute after another was elected", p.id)
		}
	}
}

// stop ends the process gracefully, which releases a leadership.
func (p *peer) stop() {
	_ = p.stdin.Close()
	<-p.done
	_ = p.command.Wait()
}

// buildClientGo builds the client-go candidate.
func buildClientGo(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clientgo")
	command := exec.Command("go", "build", "-o", file, ".")
	command.Dir = filepath.Join("..", "..", "..", "test", "interop", "clientgo")
	command.Env = append(os.Environ(), "GOWORK=off")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", command.Dir, err, out)
	}
	return file
}

// shared is one Lease and its candidates of both kinds.
type shared struct {
	t         *testing.T
	address   string
	namespace string
	clientGo  string // the program
	cluster   *cluster
	history   history
	elected   chan *peer
	started   int
	alive     map[string][]*peer // by kind
}

// The kinds of candidates, which are prefixes of their ids.
const (
	ours   = "ours"
	theirs = "client-go"
)

func kindOf(id string) string { return strings.TrimRight(id, "-0123456789") }

// start starts another candidate of a kind.
func (s *shared) start(kind string) {
	s.t.Helper()
	s.started++
	id := fmt.Sprintf("%s-%d", kind, s.started)
	var link *servers.Link
	command := exec.Command(os.Args[0])
	if kind == ours {
		var err error
		if link, err = s.cluster.server.Link(); err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(link.Close)
		address := s.address + "&server=" + url.QueryEscape("https://"+link.Addr)
		command.Env = append(os.Environ(), candidateEnv+"="+address+" "+id)
	} else {
		command = exec.Command(s.clientGo,
			"-kubeconfig", s.cluster.server.Note["kubeconfig"], "-namespace", s.namespace, "-lease", "shared",
			"-id", id, "-lease-duration", leaseDuration.String(), "-renew-deadline", renewDeadline.String(),
			"-retry-period", retryPeriod.String())
	}
	p := startPeer(s.t, &s.history, s.elected, id, command)
	p.link = link
	s.alive[kind] = append(s.alive[kind], p)
}

// end ends a candidate, by kill -9 or gracefully.
func (s *shared) end(p *peer, kill bool) {
	if kill {
		p.kill()
	} else {
		p.stop()
	}
	kind := kindOf(p.id)
	s.alive[kind] = slices.DeleteFunc(s.alive[kind], func(other *peer) bool { return other == p })
}

// leader returns the next candidate that is elected.
func (s *shared) leader() *peer {
	s.t.Helper()
	select {
	case p := <-s.elected:
		return p
	case <-time.After(time.Minute):
		s.t.Fatal("nobody is elected within a minute")
		return nil
	}
}

// TestClientGoAndWeShareALease lets two candidates of each kind take a Lease from
// each other. In each round, the leader is killed, stopped or asked to resign: in
// one round of three while all others wait, otherwise while only candidates of
// the other kind wait, so that the Lease passes from kind to kind again and
// again. Ours are also partitioned or paused, and lead on for as long as they
// may; client-go's are spared that.
func TestClientGoAndWeShareALease(t *testing.T) {
	c := startCluster(t)
	s := &shared{t: t, cluster: c, clientGo: buildClientGo(t), address: c.namespace(t), elected: make(chan *peer, 1000),
		alive: map[string][]*peer{}}
	s.namespace = operator(t, s.address).namespace
	for _, kind := range []string{ours, theirs, ours, theirs} {
		s.start(kind)
	}
	const rounds = 36
	for round := range rounds {
		leader := s.leader()
		kind, other := kindOf(leader.id), theirs
		if kind == theirs {
			other = ours
			s.awaitLine()
		}
		alone := round%3 == 2
		if !alone {
			for _, p := range slices.Clone(s.alive[kind]) {
				if p != leader {
					s.end(p, true)
				}
			}
		}
		switch action := rand.IntN(4); {
		case action == 0 && kind == ours:
			awaittest.RealTime(rand.N(ourLease), "it has renewed at any moment before")
			leader.link.Cut()
		case action == 1 && kind == ours:
			awaittest.RealTime(rand.N(ourLease), "it has renewed at any moment before")
			leader.signal(syscall.SIGSTOP)
		case action == 2 && alone:
			_, _ = io.WriteString(leader.stdin, "resign\n")
		default:
			s.end(leader, action < 2)
		}
		next := s.leader()
		if !alone && kindOf(next.id) != other {
			t.Fatalf("round %d: %s follows %s, and no candidate of its kind was there", round, next.id, leader.id)
		}
		s.elected <- next // the leader of the next round
		if leader.link != nil && next != leader {
			leader.link.Heal()
			leader.signal(syscall.SIGCONT)
			leader.awaitEnd()
		}
		for len(s.alive[kind]) < 2 {
			s.start(kind)
		}
	}
	s.leader()
	for _, kind := range []string{theirs, ours} {
		for _, p := range slices.Clone(s.alive[kind]) {
			s.end(p, false)
		}
	}
	s.verdict(rounds)
}

// awaitLine returns once one of ours is the successor.
func (s *shared) awaitLine() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for view := range openURL(s.t, s.address).Observe(ctx, "shared") {
		if len(view.Waiters) > 0 {
			return
		}
	}
	s.t.Fatal("none of ours waits within a minute")
}

// verdict judges the spans and counts who followed whom.
func (s *shared) verdict(rounds int) {
	s.t.Helper()
	spans := s.history.judge(s.t)
	counts := map[string]int{}
	for i := 1; i < len(spans); i++ {
		counts[kindOf(spans[i-1].who)+" -> "+kindOf(spans[i].who)]++
	}
	s.t.Logf("%d leaderships: %v", len(spans), counts)
	if counts["client-go -> ours"] < rounds/4 || counts["ours -> client-go"] < rounds/4 || len(spans) < rounds {
		s.t.Errorf("too few handovers: %v", counts)
	}
	store := operator(s.t, s.address)
	lease, err := store.get(s.t.Context(), "shared")
	if err != nil {
		s.t.Fatal(err)
	}
	// One for each change of the holder except the first.
	if got := *lease.Spec.LeaseTransitions; int(got) < len(spans)-1 {
		s.t.Errorf("leaseTransitions %d after %d leaderships", got, len(spans))
	}
}
