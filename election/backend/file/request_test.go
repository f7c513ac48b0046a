//go:build unix

package file

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestRequestOfALeaderThatHasJustBeenElectedIsNotLost asks as soon as an
// observer sees the new leader, which is before its Acquire has returned.
func TestRequestOfALeaderThatHasJustBeenElectedIsNotLost(t *testing.T) {
	b := open(t, t.TempDir())
	elect(t, b)
	operator := open(t, b.dir)
	p, err := operator.place("jobs")
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	b.fault = func(operation string) error {
		// The state names the new leader from the rename on; the sync of the
		// directory is the next operation.
		if view, _ := p.view(); operation == "syncdir" && view.Leader != "" {
			asked = true
			if err := operator.Ask(awaittest.Within(t), "jobs", election.Request{Token: view.Token, By: "me"}); err != nil {
				t.Errorf("ask for token %d: %v", view.Token, err)
			}
		}
		return nil
	}
	grant, err := b.Acquire(awaittest.Within(t), claim(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if !asked {
		t.Fatal("nobody led before Acquire returned")
	}
	b.fault = nil
	if grant, err = b.Renew(awaittest.Within(t), grant); err != nil || grant.Request == nil || grant.Request.By != "me" {
		t.Errorf("the leader was told of %+v, %v", grant.Request, err)
	}
	select {
	case <-grant.News:
	case <-awaittest.Within(t).Done():
		t.Error("the leader is not told that there are news")
	}
	if err := b.Release(awaittest.Within(t), grant); err != nil {
		t.Fatal(err)
	}
}

// TestLateRequestOfTheLastLeaderReplacesNone writes a request for a leadership that
// is over after a request for the current leader, as an operator does that was slow
// between looking and writing. Neither is left when the next candidate leads.
func TestLateRequestOfTheLastLeaderReplacesNone(t *testing.T) {
	b := open(t, t.TempDir())
	last := elect(t, b)
	grant, err := b.Acquire(awaittest.Within(t), claim(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Ask(awaittest.Within(t), "jobs", election.Request{By: "me"}); err != nil {
		t.Fatal(err)
	}
	p, err := b.place("jobs")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.replace(requestFile(last), []byte(`{"token":1,"by":"late"}`)); err != nil {
		t.Fatal(err)
	}
	grant, err = b.Renew(awaittest.Within(t), grant)
	if err != nil || grant.Request == nil || grant.Request.By != "me" {
		t.Errorf("the leader was told of %+v, %v", grant.Request, err)
	}
	if err := b.Release(awaittest.Within(t), grant); err != nil {
		t.Fatal(err)
	}
	elect(t, b)
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), requestPrefix) {
			t.Errorf("%s is left", entry.Name())
		}
	}
}
