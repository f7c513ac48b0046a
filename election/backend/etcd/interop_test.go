//go:build conformance && linux

package etcd_test

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/etcd"
	"github.com/conclave-project/conclave/election/backend/internal/overlap"
	"github.com/conclave-project/conclave/election/backend/internal/queuetest"
	"github.com/conclave-project/conclave/election/queue"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/stores"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcdctlLease is the lease of "etcdctl elect", which has no option for it.
const etcdctlLease = 60 * time.Second

func TestElectionIsSharedWithEtcdctl(t *testing.T) {
	url := stores.Start(t, "etcd").URL
	s := stores.At(url)
	overlap.Run(t, overlap.Shared{
		Backend: open(t, url), URLs: []string{url}, Election: "shared/one", Lease: lease,
		Other: func(id, _ string) *exec.Cmd {
			return exec.Command(s.Note["etcdctl"], "--endpoints", s.Addr, "elect", "shared/one", id)
		},
		// It prints the key and then the value.
		OtherLeads: func(id, line string) bool { return line == id },
		Handovers:  25, Patience: etcdctlLease + 20*time.Second, OtherKills: 1,
	})
}

func TestEtcdPassesTheTestsOfQueues(t *testing.T) {
	queuetest.Run(t, queuetest.Store{
		URL: func(t testing.TB) string { return stores.Start(t, "etcd").URL }, Open: open, Lease: lease, Left: left, Link: link, Delete: deleteAll, Write: fenced,
		Waiting: func(t testing.TB, url string) (keys []string) {
			for _, kv := range candidates(t, operator(t, url)) {
				keys = append(keys, string(kv.Key))
			}
			return keys[min(1, len(keys)):]
		},
		Remove: func(t testing.TB, url, key string) {
			if _, err := operator(t, url).Delete(awaittest.Within(t), key); err != nil {
				t.Fatal(err)
			}
		},
		EndLease: func(t testing.TB, url, key string) {
			c := operator(t, url)
			found, err := c.Get(awaittest.Within(t), key)
			if err == nil {
				_, err = c.Revoke(awaittest.Within(t), clientv3.LeaseID(found.Kvs[0].Lease))
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	})
}

// fenced writes a key under the Fence of a leadership.
func fenced(t testing.TB, url string) func(election.Leadership) error {
	client := operator(t, url)
	return func(lead election.Leadership) error {
		leads, err := etcd.Fence(lead)
		if err != nil {
			return err
		}
		answer, err := client.Txn(awaittest.Within(t)).If(leads).Then(clientv3.OpPut("written", lead.ID())).Commit()
		if err == nil && !answer.Succeeded {
			err = queuetest.ErrRefused
		}
		return err
	}
}

// link returns the store behind a link of its own.
func link(t testing.TB, url string) (string, overlap.Link) {
	t.Helper()
	link, err := stores.At(url).Link()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	return "etcd://" + link.Addr, link
}

// TestNomineeDoesNotPassCandidatesOfEtcdctl: they would not notice.
func TestNomineeDoesNotPassCandidatesOfEtcdctl(t *testing.T) {
	url := stores.Start(t, "etcd").URL
	c := operator(t, url)
	a := open(t, url).(*queue.Backend)
	held, err := a.Acquire(awaittest.Within(t), claim("a", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	foreign := exec.Command(stores.At(url).Note["etcdctl"], "--endpoints", stores.At(url).Addr, "elect", "e", "x")
	childtest.Start(t, foreign)
	awaitQueue(t, c, 2)
	go func() { _, _ = a.Acquire(awaittest.Within(t), claim("b", time.Minute)) }() // ends with the backend
	awaitQueue(t, c, 3)
	if err := a.Nominate(awaittest.Within(t), held, "b"); err == nil {
		t.Error("b was nominated though x is before it")
	}
	if err := a.Nominate(awaittest.Within(t), held, "x"); err != nil {
		t.Errorf("x is the successor: %v", err)
	}
	if err := a.Nominate(awaittest.Within(t), held, "y"); !errors.Is(err, election.ErrNoCandidate) {
		t.Errorf("nobody is called y: %v", err)
	}
	if queue := awaitQueue(t, c, 3); string(queue[1].Value) != "x" {
		t.Errorf("the line was changed: %q is next", queue[1].Value)
	}
}
