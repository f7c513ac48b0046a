//go:build unix

package supervise_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
)

// orderEnv makes this test binary a supervisor.
const orderEnv = "CONCLAVE_TEST_SUPERVISE"

// hangEnv makes guardians hang.
const hangEnv = "CONCLAVE_TEST_GUARDIAN_HANGS"

// endEnv names a file: while it is there, guardians end at once.
const endEnv = "CONCLAVE_TEST_GUARDIAN_ENDS"

type testOrder struct {
	Dir     string
	ID      string
	Args    []string
	Env     []string // in addition to that of the test
	Lease   time.Duration
	Grace   time.Duration
	Forever bool
	// Servers is a store that expires leases.
	Servers string
	// Expires makes the store one in memory that expires leases.
	Expires bool
	// Grants is the lease that this store grants, whatever was asked for.
	Grants time.Duration
	// Shortens is the lease that this store grants from its first renewal on, and
	// Shortened is the file that it then makes.
	Shortens  time.Duration
	Shortened string
	// Holds names a file: releases create it, and never return.
	Holds string
	// CutWhen and ResignWhen name files: once the file exists, the store becomes
	// unreachable, or the leadership is given up.
	CutWhen, ResignWhen string

	// NoAlarm: the kernel makes no timer for the guardian, so a stopped guardian stays stopped.
	NoAlarm bool

	OnElected, OnLost, Health string
	HookLimit, Wait           time.Duration

	output  *os.File // nil means a file
	program string   // empty means this test binary
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.GuardianArg {
		if os.Getenv(hangEnv) != "" {
			_, _ = io.Copy(io.Discard, os.NewFile(3, "control")) // until the supervisor dies
		}
		if _, err := os.Stat(os.Getenv(endEnv)); err == nil {
			os.Exit(1)
		}
		os.Exit(supervise.Guardian())
	}
	if text := os.Getenv(orderEnv); text != "" {
		os.Exit(superviseAsTold(text))
	}
	os.Exit(m.Run())
}

func superviseAsTold(text string) int {
	var o testOrder
	order, err := hex.DecodeString(text)
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(order)).Decode(&o)
	}
	if err != nil {
		panic(err)
	}
	_ = os.Unsetenv(orderEnv)
	if o.Holds != "" { // it is signalled until it has ended, even after Run
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM)
	}
	if o.NoAlarm {
		denyTimers()
	}
	backend, err := o.backend()
	if err != nil {
		panic(err)
	}
	command := supervise.Command{Args: o.Args, Grace: o.Grace, OnElected: o.OnElected, OnLost: o.OnLost,
		HookLimit: o.HookLimit, Wait: o.Wait, OnRemark: func(err error) { fmt.Fprintln(os.Stderr, "remark:", err) }}
	options := election.Options{ID: o.ID, Lease: o.Lease,
		Once: !o.Forever, Retry: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond}
	if o.Health != "" {
		command.Health = &supervise.Health{Command: o.Health}
		options.Health, options.HealthEvery = command.Health.Check, 100*time.Millisecond
	}
	elector, err := election.New(backend, "test", options)
	if err != nil {
		panic(err)
	}
	when(o.ResignWhen, func() { _ = elector.Resign(context.Background()) })
	code, err := supervise.Run(context.Background(), elector, command)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

// denyTimers makes Linux create no POSIX timers for this process and those that it starts.
func denyTimers() {
	const sigPending = 11 // RLIMIT_SIGPENDING
	var limit syscall.Rlimit
	err := syscall.Getrlimit(sigPending, &limit)
	if limit.Cur = 0; err == nil {
		err = syscall.Setrlimit(sigPending, &limit)
	}
	if err != nil {
		panic(err)
	}
}

func (o testOrder) backend() (election.Backend, error) {
	if o.Servers != "" {
		return zookeeper.New(o.Servers, zookeeper.Options{})
	}
	if !o.Expires {
		return file.New(o.Dir)
	}
	store := electiontest.NewFaulty(electiontest.NewStore(nil))
	when(o.CutWhen, store.Cut)
	if o.Grants > 0 {
		return shortLease{store, o.Grants}, nil
	}
	if o.Holds != "" {
		return holding{store, o.Holds}, nil
	}
	if o.Shortens > 0 {
		return shortening{store, o.Shortens, o.Shortened}, nil
	}
	return store, nil
}

// shortening grants a shorter lease when it renews, as ZooKeeper does when a session
// moves to a server with another maxSessionTimeout.
type shortening struct {
	election.Backend
	lease time.Duration
	file  string
}

func (s shortening) Renew(ctx context.Context, grant election.Grant) (election.Grant, error) {
	grant, err := s.Backend.Renew(ctx, grant)
	grant.Lease = s.lease
	file, errFile := os.OpenFile(s.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if errFile == nil {
		_, errFile = file.WriteString("renewed\n")
		errFile = errors.Join(errFile, file.Close())
	}
	return grant, errors.Join(err, errFile)
}

// shortLease grants a lease of its own, as some stores do.
type shortLease struct {
	election.Backend
	lease time.Duration
}

func (s shortLease) Acquire(ctx context.Context, claim election.Claim) (election.Grant, error) {
	claim.Lease = s.lease
	return s.Backend.Acquire(ctx, claim)
}

// holding never returns from a release.
type holding struct {
	election.Backend
	file string
}

func (h holding) Release(context.Context, election.Grant) error {
	if err := os.WriteFile(h.file, []byte("asked\n"), 0o600); err != nil {
		panic(err)
	}
	select {}
}

// when calls the function once the file exists, if one is named.
func when(path string, function func()) {
	if path == "" {
		return
	}
	go func() {
		awaittest.Poll(context.Background(), func() bool {
			_, err := os.Stat(path)
			return err == nil
		})
		function()
	}()
}

// runner is a supervisor process as a test sees it.
type runner struct {
	t       *testing.T
	command *exec.Cmd
	output  bytes.Buffer
	ended   chan struct{}
}

func start(t *testing.T, o testOrder) *runner {
	t.Helper()
	if o.Lease == 0 {
		o.Lease = time.Second
	}
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(o); err != nil {
		t.Fatal(err)
	}
	r := &runner{t: t, command: exec.Command(cmp.Or(o.program, os.Args[0])), ended: make(chan struct{})}
	r.command.Env = append(os.Environ(), orderEnv+"="+hex.EncodeToString(text.Bytes()))
	r.command.Env = append(r.command.Env, o.Env...)
	output := filepath.Join(t.TempDir(), "output")
	file, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	if o.output != nil {
		file = o.output
	}
	r.command.Stdout, r.command.Stderr = file, file
	childtest.Start(t, r.command)
	go func() {
		_ = r.command.Wait()
		text, _ := os.ReadFile(output)
		r.output.Write(text)
		close(r.ended)
	}()
	t.Cleanup(func() {
		below := children(r.pid())
		_ = r.command.Process.Signal(syscall.SIGCONT)
		_ = r.command.Process.Kill()
		<-r.ended
		for _, guardian := range below {
			awaitGone(t, guardian)
		}
		if t.Failed() {
			t.Logf("%s said:\n%s", cmp.Or(o.ID, "the supervisor"), &r.output)
		}
	})
	return r
}

// awaitGone waits until a guardian whose supervisor has gone has killed the command, and
// has ended: until then, the command writes to a directory that is about to be removed.
func awaitGone(t *testing.T, guardian int) {
	_ = syscall.Kill(guardian, syscall.SIGCONT)
	awaittest.Until(t, fmt.Sprintf("guardian %d is gone", guardian), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", guardian))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

func (r *runner) pid() int { return r.command.Process.Pid }

func (r *runner) signal(s syscall.Signal) { _ = r.command.Process.Signal(s) }

// code waits until the process ends, and returns the exit code.
func (r *runner) code() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.t.Fatal("the supervisor does not end")
	}
	return r.command.ProcessState.ExitCode()
}

// guardian returns the process id of the guardian.
func (r *runner) guardian() int {
	r.t.Helper()
	pids := children(r.pid())
	if len(pids) != 1 {
		r.t.Fatalf("no guardian, but children %v", pids)
	}
	return pids[0]
}

// children returns the processes that a process has started but not waited for.
func children(pid int) []int {
	var pids []int
	for _, thread := range threads(pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread))
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

func threads(pid int) []string {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// patience is how long a test waits for what must happen, far longer than that takes.
const patience = time.Minute

// lines returns the lines of a file, or none if it does not exist. Tokens of the file
// backend, which have thirteen digits, are replaced by their rank; the lowest becomes 1.
func lines(path string) []string {
	text, _ := os.ReadFile(path)
	tokens := fileToken.FindAllString(string(text), -1)
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	return strings.Fields(fileToken.ReplaceAllStringFunc(string(text), func(token string) string {
		place, _ := slices.BinarySearch(tokens, token)
		return strconv.Itoa(place + 1)
	}))
}

var fileToken = regexp.MustCompile(`\b\d{13}\b`)

// acting is a script that writes its token to the file for as long as it lives. Its
// child does so too, in a session of its own, and ignores SIGTERM. The child is ready
// before anything is written. Both end by themselves some time after any test.
func acting(path string) []string {
	heartbeat := `i=0; while [ $i -lt 12000 ]; do i=$((i+1)); echo $CONCLAVE_TOKEN >> ` + path + `; sleep 0.01; done`
	ready := path + ".$CONCLAVE_TOKEN.ready"
	return []string{"sh", "-c", `setsid sh -c 'trap "" TERM; : > ` + ready + `; ` + heartbeat + `' &
		while [ ! -e ` + ready + ` ]; do sleep 0.01; done; ` + heartbeat}
}

// judgeActing fails if a process acted with an old token after one with a newer token.
func judgeActing(t *testing.T, path string) {
	t.Helper()
	last := 0
	for i, line := range lines(path) {
		token, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("line %d: %q", i, line)
		}
		if token < last {
			t.Fatalf("line %d: token %d acted after %d", i, token, last)
		}
		last = token
	}
}

func acts(path, token string) func() bool {
	return func() bool {
		all := lines(path)
		return len(all) > 0 && all[len(all)-1] == token
	}
}

// actor returns the token of the process that acted last, or 0 if none did.
func actor(path string) int {
	all := lines(path)
	if len(all) == 0 {
		return 0
	}
	token, _ := strconv.Atoi(all[len(all)-1])
	return token
}
