//go:build conformance

package controller_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	core "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election/controller"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/stores"
)

// managerEnv makes the test binary act as a controller: "KIND KUBECONFIG SERVER".
const managerEnv = "CONCLAVE_CONTROLLER"

// The kinds of managers: with our election, and with controller-runtime's own.
const (
	ours   = "ours"
	theirs = "controller-runtime"
)

// The lease of both kinds, and client-go's times.
var (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
)

func TestMain(m *testing.M) {
	if order := os.Getenv(managerEnv); order != "" {
		if err := runManager(strings.Fields(order)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runManager runs a controller that reconciles ConfigMaps until its standard input ends. It
// prints when its runnables began and ended, and the token in each reconciler's context.
func runManager(order []string) error {
	config, err := clientcmd.BuildConfigFromFlags("", order[1])
	if err != nil {
		return err
	}
	config.Host = order[2]
	log := funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, prefix, args) }, funcr.Options{})
	options := manager.Options{LeaderElection: true, LeaderElectionID: "shared", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true, LeaseDuration: &leaseDuration, Metrics: server.Options{BindAddress: "0"}, Logger: log}
	var mgr manager.Manager
	if order[0] == ours {
		mgr, err = controller.NewManager(config, options, controller.Election{})
	} else {
		options.RenewDeadline, options.RetryPeriod = &renewDeadline, &retryPeriod
		mgr, err = ctrl.NewManager(config, options)
	}
	if err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(act)); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&core.ConfigMap{}).Complete(reconcile.Func(
		func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			lead, _ := controller.LeadershipFrom(ctx)
			fmt.Println("reconciled", uint64(lead.Token()))
			return reconcile.Result{}, nil
		}))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return mgr.Start(ctx)
}

// act is the leader's runnable.
func act(ctx context.Context) error {
	lead, elected := controller.LeadershipFrom(ctx)
	last := clock.Now()
	fmt.Println("began", int64(last), uint64(lead.Token()))
	for now := last; ctx.Err() == nil && (!elected || lead.Err() == nil); now = clock.Now() {
		last = now
		awaittest.RealTime(time.Millisecond, "it looks often, and keeps no processor busy")
	}
	fmt.Println("ended", int64(last))
	return nil
}

// span is the time for which a process has led.
type span struct {
	who      string
	token    uint64
	from, to clock.Instant
}

// process is a controller process.
type process struct {
	kind    string
	id      string
	command *exec.Cmd
	stdin   io.Closer
	link    *servers.Link
	done    chan struct{}
	err     error

	mu         sync.Mutex
	open       *span
	reconciled map[uint64]bool
}

// cluster is an API server and the controllers on it.
type cluster struct {
	t      *testing.T
	server *stores.Server
	began  chan *process
	count  int

	mu    sync.Mutex
	spans []span
}

func (c *cluster) start(kind string) *process {
	c.t.Helper()
	link, err := c.server.Link()
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(link.Close)
	c.count++
	p := &process{kind: kind, id: fmt.Sprintf("%s-%d", kind, c.count), link: link, done: make(chan struct{}),
		reconciled: map[uint64]bool{}}
	p.command = exec.Command(os.Args[0])
	p.command.Env = append(os.Environ(), managerEnv+"="+kind+" "+c.server.Note["kubeconfig"]+" https://"+link.Addr)
	var log strings.Builder
	p.command.Stderr = &log
	stdin, errIn := p.command.StdinPipe()
	stdout, errOut := p.command.StdoutPipe()
	if errIn != nil || errOut != nil {
		c.t.Fatal(errIn, errOut)
	}
	p.stdin = stdin
	childtest.Start(c.t, p.command)
	go c.read(p, stdout)
	c.t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.done
		if text := log.String(); c.t.Failed() {
			c.t.Logf("%s:\n%s", p.id, text[max(0, len(text)-3000):])
		}
	})
	return p
}

// read records what a controller prints, until it has ended.
func (c *cluster) read(p *process, stdout io.Reader) {
	defer close(p.done)
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var kind string
		var first int64
		var token uint64
		_, _ = fmt.Sscan(lines.Text(), &kind, &first, &token)
		p.mu.Lock()
		switch kind {
		case "began":
			p.open = &span{p.id, token, clock.Instant(first), 0}
		case "ended":
			c.file(p, clock.Instant(first))
		case "reconciled":
			p.reconciled[uint64(first)] = true
		}
		p.mu.Unlock()
		if kind == "began" {
			c.began <- p
		}
	}
	p.err = p.command.Wait()
}

// file records one line. The process's mutex is held.
func (c *cluster) file(p *process, at clock.Instant) {
	if p.open != nil {
		p.open.to = at
		c.mu.Lock()
		c.spans = append(c.spans, *p.open)
		c.mu.Unlock()
		p.open = nil
	}
}

// leader returns the next leader, once its reconciler has run.
func (c *cluster) leader() *process {
	c.t.Helper()
	limit := time.After(time.Minute)
	select {
	case p := <-c.began:
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			p.mu.Lock()
			open := p.open
			ready := open == nil || p.reconciled[open.token]
			p.mu.Unlock()
			if ready {
				return p
			}
			select {
			case <-tick.C:
			case <-p.done:
				return p
			case <-limit:
				c.t.Fatalf("%s has not reconciled with its token within a minute", p.id)
			}
		}
	case <-limit:
		c.t.Fatal("nobody leads within a minute")
	}
	return nil
}

// gone waits for the end of a process.
func (c *cluster) gone(p *process) {
	c.t.Helper()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		c.t.Fatalf("%s has not ended a minute after another leads", p.id)
	}
}

// strike does something to the leader, and returns the next leader when the old one has
// ended.
func (c *cluster) strike(leader *process, how string) *process {
	c.t.Helper()
	var next *process
	switch how {
	case "kill":
		at := clock.Now()
		_ = leader.command.Process.Kill()
		<-leader.done
		leader.mu.Lock()
		c.file(leader, at)
		leader.mu.Unlock()
		next = c.leader()
	case "stop":
		began := time.Now()
		_ = leader.stdin.Close()
		next = c.leader()
		if took := time.Since(began); took > leaseDuration && next.kind == ours {
			c.t.Errorf("%s led %v after %s was told to stop", next.id, took, leader.id)
		}
		if c.gone(leader); leader.err != nil && leader.kind == ours {
			c.t.Errorf("%s was told to stop and ended with %v", leader.id, leader.err)
		}
	case "freeze":
		_ = leader.command.Process.Signal(syscall.SIGSTOP)
		next = c.leader()
		_ = leader.command.Process.Signal(syscall.SIGCONT)
		c.gone(leader)
	case "partition":
		leader.link.Cut()
		next = c.leader()
		c.gone(leader)
	}
	if next == leader {
		c.t.Fatalf("%s leads again", leader.id)
	}
	return next
}

// judge fails the test if two controllers led at once, or a token did not grow.
func (c *cluster) judge() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var last span
	var token uint64
	for _, s := range c.spans {
		if s.from < last.to {
			c.t.Errorf("%s led beside %s for %v", s.who, last.who, last.to.Sub(s.from))
		}
		if s.token != 0 && s.token <= token {
			c.t.Errorf("%s has token %d after %d", s.who, s.token, token)
		}
		last, token = s, max(token, s.token)
	}
}

func startCluster(t *testing.T) *cluster {
	c := &cluster{t: t, server: stores.Start(t, "kubernetes"), began: make(chan *process, 100)}
	config, err := clientcmd.BuildConfigFromFlags("", c.server.Note["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Post(config.Host+"/api/v1/namespaces/default/configmaps", "application/json",
		strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}`))
	if err != nil || response.StatusCode != http.StatusCreated {
		t.Fatal(response, err)
	}
	response.Body.Close()
	return c
}

func TestTwoManagersNeverLeadAtOnce(t *testing.T) {
	c := startCluster(t)
	c.start(ours)
	leader := c.leader()
	c.start(ours)
	for round := range 4 {
		for _, how := range []string{"stop", "kill", "freeze", "partition"} {
			awaittest.RealTime(time.Duration(round)*leaseDuration/16, "it is hit at any moment between two renewals")
			leader = c.strike(leader, how)
			c.start(ours)
		}
	}
	c.judge()
	if len(c.spans) < 16 {
		t.Errorf("%d leaderships", len(c.spans))
	}
}

// TestManagersOfBothKindsShareTheLease is a rollout and a rollback: managers with
// controller-runtime's own election and with ours take the Lease from each other.
func TestManagersOfBothKindsShareTheLease(t *testing.T) {
	c := startCluster(t)
	c.start(theirs)
	leader := c.leader()
	for round := range 8 {
		other := ours
		if leader.kind == ours {
			other = theirs
		}
		c.start(other)
		next := c.strike(leader, []string{"stop", "kill"}[round/2%2])
		if next.kind != other {
			t.Fatalf("%s follows %s", next.id, leader.id)
		}
		leader = next
	}
	c.judge()
}
