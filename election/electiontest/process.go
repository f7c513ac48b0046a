package electiontest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// candidateEnv carries the order of a candidate process. The suite starts the
// test binary itself with it.
const candidateEnv = "CONCLAVE_ELECTIONTEST_CANDIDATE"

// order says what a candidate process is to do.
type order struct {
	URL, Election, ID string
	Lease             time.Duration
}

// Main runs the tests, or a candidate if this process was started as one. Call
// it from TestMain: it returns the exit code.
//
//	func TestMain(m *testing.M) { os.Exit(electiontest.Main(m, open)) }
//
// Open opens the backend in a candidate process; url is what Suite.URL gave.
func Main(m *testing.M, open func(url string) (election.Backend, error)) int {
	text := os.Getenv(candidateEnv)
	if text == "" {
		return m.Run()
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		fmt.Println("error", err)
		return 1
	}
	backend, err := open(o.URL)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	return candidate(o, backend)
}

// candidate campaigns until its standard input ends, and tells on its standard
// output when it leads and until when it believed so. A line "resign" on the
// input makes it resign.
func candidate(o order, backend election.Backend) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	elector, err := election.New(backend, o.Election, election.Options{ID: o.ID, Lease: o.Lease,
		Forever: true, Retry: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		OnEvent: func(e election.Event) {
			if e.Err != nil {
				fmt.Fprintln(os.Stderr, o.ID, e.Kind, e.Err)
			}
		}})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			if lines.Text() == "resign" {
				_ = elector.Resign(ctx)
			}
		}
		cancel()
	}()
	_ = elector.Run(ctx, believe)
	return 0
}

// believe asks the leadership as often as it can whether it holds, so that the
// last yes is known even across a freeze.
func believe(_ context.Context, lead election.Leadership) error {
	fmt.Println("elected", uint64(lead.Token()), int64(election.Now()))
	last := election.Now()
	for {
		now := election.Now()
		if lead.Err() != nil {
			break
		}
		last = now
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ended", uint64(lead.Token()), int64(last))
	return nil
}

// process is a candidate process seen from the suite.
type process struct {
	t       testing.TB
	id      string
	history *history
	command *exec.Cmd
	stdin   io.WriteCloser
	elected chan election.Token
	ended   chan struct{}

	mu   sync.Mutex
	open *belief
}

func startProcess(t testing.TB, h *history, o order) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), candidateEnv+"="+string(text))
	command.Stderr = os.Stderr
	stdin, errIn := command.StdinPipe()
	stdout, errOut := command.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, id: o.ID, history: h, command: command, stdin: stdin,
		elected: make(chan election.Token, 1000), ended: make(chan struct{})}
	go p.read(stdout)
	t.Cleanup(p.kill)
	return p
}

func (p *process) read(stdout io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		var token uint64
		var at int64
		_, _ = fmt.Sscan(rest, &token, &at)
		p.mu.Lock()
		switch word {
		case "elected":
			p.open = &belief{p.id, election.Token(token), election.Instant(at), 0}
			p.elected <- election.Token(token)
		case "ended":
			p.close(election.Instant(at))
		case "error":
			p.t.Errorf("candidate %s: %s", p.id, rest)
		}
		p.mu.Unlock()
	}
}

// close files the belief that is open. The caller holds the mutex.
func (p *process) close(to election.Instant) {
	if p.open != nil {
		p.open.to = to
		p.history.add(*p.open)
		p.open = nil
	}
}

// awaitElected returns the token of the next leadership of this candidate.
func (p *process) awaitElected(limit time.Duration) election.Token {
	p.t.Helper()
	select {
	case token := <-p.elected:
		return token
	case <-time.After(limit):
		p.t.Fatalf("%s was not elected within %v", p.id, limit)
		return 0
	}
}

// kill ends the process as kill -9 does. It believed until then.
func (p *process) kill() {
	before := election.Now()
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close(before)
}

// stop lets the process end in good order.
func (p *process) stop() {
	_ = p.stdin.Close()
	<-p.ended
}

func (p *process) resign() { _, _ = io.WriteString(p.stdin, "resign\n") }
