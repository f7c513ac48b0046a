//go:build conformance && linux

package etcd_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/etcd"
	"github.com/conclave-project/conclave/election/backend/internal/witness"
	"github.com/conclave-project/conclave/internal/childtest"
)

// etcdctlLease is that of "etcdctl elect", which has no option for it.
const etcdctlLease = 60 * time.Second

func TestElectionIsSharedWithEtcdctl(t *testing.T) {
	url := start(t)
	s := server(url)
	witness.Run(t, witness.Shared{
		Backend: open(t, url), URLs: []string{url}, Election: "shared/one", Lease: lease,
		Other: func(id, _ string) *exec.Cmd {
			return exec.Command(s.Note["etcdctl"], "--endpoints", s.Addr, "elect", "shared/one", id)
		},
		// It prints the key and then the value.
		OtherLeads: func(id, line string) bool { return line == id },
		Handovers:  25, Patience: etcdctlLease + 20*time.Second, OtherKills: 1,
	})
}

// TestWaiterWhoseLeaseDiedIsNeverTold (E11): etcd's own Campaign is.
func TestWaiterWhoseLeaseDiedIsNeverTold(t *testing.T) {
	url := start(t)
	a, b, c := open(t, url), open(t, url), operator(t, url)
	held, err := a.Acquire(within(t), claim("a", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.Acquire(within(t), claim("b", time.Minute))
		ended <- err
	}()
	waiting := awaitQueue(t, c, 2)[1]
	if _, err := c.Revoke(within(t), clientv3.LeaseID(waiting.Lease)); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(within(t), held); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, election.ErrLost) {
		t.Errorf("Acquire returned %v", err)
	}
	if left := queue(t, c); len(left) != 0 {
		t.Errorf("%d candidates are left", len(left))
	}
}

// TestWaiterWhoseKeyIsDeletedGoesToTheEnd: its lease lives, so it stays a
// candidate, and never takes the place for its own that it has lost.
func TestWaiterWhoseKeyIsDeletedGoesToTheEnd(t *testing.T) {
	url := start(t)
	c := operator(t, url)
	b := open(t, url)
	held, err := b.Acquire(within(t), claim("a", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan election.Grant, 2)
	for i, id := range []string{"b", "c"} {
		go func() {
			grant, err := b.Acquire(within(t), claim(id, time.Minute))
			if err != nil {
				t.Error(err)
			}
			granted <- grant
		}()
		awaitQueue(t, c, i+2)
	}
	second := awaitQueue(t, c, 3)[1]
	if _, err := c.Delete(within(t), string(second.Key)); err != nil {
		t.Fatal(err)
	}
	for queue := awaitQueue(t, c, 3); string(queue[2].Value) != "b"; queue = awaitQueue(t, c, 3) {
		time.Sleep(time.Millisecond)
	}
	for _, want := range []string{"c", "b"} {
		if err := b.Release(within(t), held); err != nil {
			t.Fatal(err)
		}
		next := <-granted
		if next.Claim.ID != want || next.Token <= held.Token {
			t.Errorf("%q is granted with token %d after %d", next.Claim.ID, next.Token, held.Token)
		}
		held = next
	}
}

// TestNomineeDoesNotPassCandidatesOfEtcdctl: they would not know.
func TestNomineeDoesNotPassCandidatesOfEtcdctl(t *testing.T) {
	url := start(t)
	c := operator(t, url)
	a := open(t, url).(*etcd.Backend)
	held, err := a.Acquire(within(t), claim("a", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	foreign := exec.Command(server(url).Note["etcdctl"], "--endpoints", server(url).Addr, "elect", "e", "x")
	childtest.Start(t, foreign)
	awaitQueue(t, c, 2)
	go func() { _, _ = a.Acquire(within(t), claim("b", time.Minute)) }() // ends with the backend
	awaitQueue(t, c, 3)
	if err := a.Nominate(within(t), held, "b"); err == nil {
		t.Error("b was nominated though x is before it")
	}
	if err := a.Nominate(within(t), held, "x"); err != nil {
		t.Errorf("x is next in line: %v", err)
	}
	if err := a.Nominate(within(t), held, "y"); !errors.Is(err, election.ErrNoCandidate) {
		t.Errorf("nobody is called y: %v", err)
	}
	if queue := awaitQueue(t, c, 3); string(queue[1].Value) != "x" {
		t.Errorf("the line was changed: %q is next", queue[1].Value)
	}
}

// TestClaimWithoutAnAnswerIsFoundAndReleased: its lease is made, and nobody is
// told its number.
func TestClaimWithoutAnAnswerIsFoundAndReleased(t *testing.T) {
	url := start(t)
	link, err := server(url).Link()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	b := open(t, strings.Replace(url, server(url).Addr, link.Addr, 1))
	held, err := b.Acquire(within(t), claim("first", time.Minute)) // opens the connection
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Release(within(t), held); err != nil {
		t.Fatal(err)
	}
	link.CutReplies()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	lost := claim("lost", time.Minute)
	go func() {
		_, err := b.Acquire(ctx, lost)
		ended <- err
	}()
	for began := time.Now(); left(t, url) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("the request has not arrived")
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Fatal("granted without an answer")
	}
	link.Heal()
	if err := b.Release(within(t), election.Grant{Claim: lost}); err != nil {
		t.Fatal(err)
	}
	if count := left(t, url); count != 0 {
		t.Errorf("%d things are left", count)
	}
}
