package electiontest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/conclave-project/conclave/internal/childtest"
)

// candidateEnv carries the order of a candidate process. The suite starts the
// test binary itself with this variable.
const candidateEnv = "CONCLAVE_ELECTIONTEST_CANDIDATE"

// order describes what a candidate process is to do.
type order struct {
	URL, Election, ID string
	Lease             time.Duration
	Priority          int
	// WarmFor is how long it takes to warm up; forever if negative.
	WarmFor time.Duration
	// Registers is where a leader updates registers; empty if it does not.
	Registers string
	// Acts is the file in which the command of a leader writes down each thing
	// that it does; the process is then a run, with a guardian. If empty, the
	// process leads itself.
	Acts string
	// Unread: nobody reads what the process writes, until drain is called.
	Unread bool
}

// Main runs the tests, or a candidate if this process was started as one. It
// returns the exit code. Call it from TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(electiontest.Main(m, open)) }
//
// Open opens the backend in a candidate process; url is what Suite.URL returned.
// A candidate with a command starts this binary twice more, as supervise does.
func Main(m *testing.M, open func(url string) (election.Backend, error)) int {
	if len(os.Args) > 1 && os.Args[1] == supervise.GuardianArg {
		return supervise.Guardian()
	}
	if path := os.Getenv(actorEnv); path != "" {
		return act(path)
	}
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

// candidate campaigns until its standard input ends, and reports on its standard
// output when it leads and until when it led. The input may contain "resign",
// "transfer ID", "cut" (no call of the store returns any longer) and "heal".
func candidate(o order, backend election.Backend) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store := NewFaulty(backend)
	var link cutter = store
	if own, ok := backend.(cutter); ok {
		link = own
	}
	elector, err := election.New(store, o.Election, election.Options{ID: o.ID, Lease: o.Lease,
		Retry: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond,
		Priority: o.Priority, Warm: o.warm, OnEvent: o.tell})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			obey(ctx, elector, link, lines.Text())
		}
		cancel()
	}()
	run := func() error { return elector.Run(ctx, serve) }
	switch {
	case o.Registers != "":
		run = func() error { return elector.Run(ctx, o.update) }
	case o.Acts != "":
		run = func() error { return o.supervise(ctx, elector) }
	}
	if err := run(); ctx.Err() == nil {
		fmt.Println("error", strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
		return 1
	}
	return 0
}

// cutter is a link to the store that can be partitioned.
type cutter interface {
	Cut()
	Heal()
}

// obey carries out a line of the input, and prints the outcome.
func obey(ctx context.Context, elector *election.Elector, link cutter, line string) {
	verb, id, _ := strings.Cut(line, " ")
	var err error
	switch verb {
	case "resign":
		err = elector.Resign(ctx)
	case "transfer":
		err = elector.TransferTo(ctx, id)
	case "cut":
		link.Cut()
		return
	case "heal":
		link.Heal()
		if store, ok := link.(*Faulty); ok {
			_ = store.clear(ctx) // otherwise nobody leads any longer, which the test notices
		}
		return
	}
	if err != nil {
		fmt.Println("refused", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	fmt.Println("done")
}

func (o order) tell(e election.Event) {
	if o.Unread {
		fmt.Fprintln(os.Stderr, o.ID, e.Kind) // like any program's log
	}
	if e.Err != nil {
		fmt.Fprintln(os.Stderr, o.ID, e.Kind, e.Err)
	}
	if e.Kind == election.EventCampaigning {
		fmt.Println("campaigning")
	}
}

// warm takes its time and reports when it is done.
func (o order) warm(ctx context.Context) error {
	fmt.Println("warming")
	var done <-chan time.Time
	if o.WarmFor >= 0 {
		done = time.After(o.WarmFor)
	}
	select {
	case <-done:
		fmt.Println("warm 0", int64(clock.Now()))
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serve asks as often as it can whether the leadership holds, so that the time
// of the last yes is known even across a pause of the process.
func serve(_ context.Context, lead election.Leadership) error {
	fmt.Println("elected", uint64(lead.Token()), int64(clock.Now()))
	last := clock.Now()
	for {
		now := clock.Now()
		if lead.Err() != nil {
			break
		}
		last = now
		select {
		case <-lead.Done():
		case <-time.After(time.Millisecond):
		}
	}
	fmt.Println("ended", uint64(lead.Token()), int64(last))
	return nil
}

// process is a candidate process as the suite sees it.
type process struct {
	t       testing.TB
	suite   Suite
	id      string
	history *history
	command *exec.Cmd
	stdin   io.WriteCloser
	ended   chan struct{}
	drain   func() // starts to read what the process writes

	// What it has reported: tokens, answers to requests ("" for done), and that
	// it campaigns, warms up and has warmed up.
	elected     chan election.Token
	answers     chan string
	campaigning chan struct{}
	warming     chan struct{}
	warm        chan clock.Instant

	mu   sync.Mutex
	open *span
}

// toldMax limits what a process may report before anybody asks for it.
const toldMax = 10000

func (s Suite) startProcess(t testing.TB, h *history, o order) *process {
	t.Helper()
	command := s.command(t, o)
	command.Stderr = os.Stderr
	stdin, errIn := command.StdinPipe()
	stdout, errOut := command.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	if o.Unread {
		fillUp(t, command.Stdout.(*os.File))
		command.Stderr = command.Stdout
	}
	childtest.Start(t, command)
	p := &process{t: t, suite: s, id: o.ID, history: h, command: command, stdin: stdin, ended: make(chan struct{}),
		elected: make(chan election.Token, toldMax), answers: make(chan string, toldMax),
		campaigning: make(chan struct{}, toldMax), warming: make(chan struct{}, toldMax),
		warm: make(chan clock.Instant, toldMax)}
	p.drain = sync.OnceFunc(func() { go p.read(stdout) })
	if !o.Unread {
		p.drain()
	}
	t.Cleanup(p.kill)
	return p
}

// fillUp writes meaningless lines into a pipe until it takes no more.
func fillUp(t testing.TB, pipe *os.File) {
	t.Helper()
	for {
		_ = pipe.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		if _, err := pipe.WriteString("\n"); errors.Is(err, os.ErrDeadlineExceeded) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// command returns the command of a candidate process.
func (s Suite) command(t testing.TB, o order) *exec.Cmd {
	o.Lease = s.Lease
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), candidateEnv+"="+string(text))
	return command
}

func (p *process) read(stdout io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		p.file(lines.Text())
	}
}

// file processes one line of the output.
func (p *process) file(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	var token uint64
	var at int64
	_, _ = fmt.Sscan(rest, &token, &at)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch verb {
	case "campaigning":
		p.campaigning <- struct{}{}
	case "warming":
		p.warming <- struct{}{}
	case "warm":
		p.warm <- clock.Instant(at)
	case "done":
		p.answers <- ""
	case "refused":
		p.answers <- rest
	case "elected":
		p.open = &span{p.id, election.Token(token), clock.Instant(at), 0}
		p.elected <- election.Token(token)
	case "ended":
		p.close(clock.Instant(at))
	case "error":
		p.t.Errorf("candidate %s: %s", p.id, rest)
	}
}

// close closes the span that is open. The caller holds the mutex.
func (p *process) close(to clock.Instant) {
	if p.open != nil {
		p.open.to = to
		p.history.add(*p.open)
		p.open = nil
	}
}

// awaitElected returns the token of the next leadership of this candidate.
func (p *process) awaitElected() election.Token {
	p.t.Helper()
	return await(p.t, p.suite, p.id+" is elected", p.elected)
}

// awaitWaiting returns once the candidate waits, as far as can be seen.
func (p *process) awaitWaiting(url, name string) {
	p.t.Helper()
	await(p.t, p.suite, p.id+" campaigns", p.campaigning)
	p.suite.awaitWaiting(p.t, url, name, p.id)
}

// await returns the next value of a channel.
func await[T any](t testing.TB, s Suite, what string, values <-chan T) T {
	t.Helper()
	select {
	case value := <-values:
		return value
	case <-time.After(s.patience()):
		t.Fatalf("waited %v in vain until %s", s.patience(), what)
		panic("unreachable")
	}
}

// kill ends the process as kill -9 does. It led until then.
func (p *process) kill() {
	before := clock.Now()
	p.drain()
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	p.close(before)
}

// stop lets the process end gracefully.
func (p *process) stop() {
	_ = p.stdin.Close()
	<-p.ended
}

// ask tells the process to "resign" or "transfer ID"; the answer arrives in answers.
func (p *process) ask(what string) { _, _ = io.WriteString(p.stdin, what+"\n") }
