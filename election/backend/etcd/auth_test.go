//go:build conformance && linux

package etcd_test

import (
	"os/exec"
	"testing"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// TestRenewalsOfAUserWriteNothing (etcd-D7): for each stream that it opens, the client
// authenticates with its user and password; etcd checks them with bcrypt and appends to its Raft
// log. With a stream for each renewal, 61 candidates kept etcd so busy that nobody was elected.
func TestRenewalsOfAUserWriteNothing(t *testing.T) {
	server := stores.Start(t, "etcd")
	for _, args := range [][]string{{"user", "add", "root:secret"}, {"user", "grant-role", "root", "root"}, {"auth", "enable"}} {
		if out, err := exec.Command(server.Note["etcdctl"], append([]string{"--endpoints", server.Addr}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	t.Setenv("ETCDCTL_USER", "root:secret")
	backend := open(t, server.URL)
	grant := storetest.Acquire(t, backend, "a", 5*lease)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr}, Username: "root", Password: "secret", Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	index := func() uint64 {
		status, err := client.Status(awaittest.Within(t), server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		return status.RaftIndex
	}
	const renewals, others = 20, 5 // etcd writes something of its own soon after it starts
	before := index()
	for range renewals {
		if grant, err = backend.Renew(awaittest.Within(t), grant); err != nil {
			t.Fatal(err)
		}
	}
	if written := index() - before; written > others {
		t.Errorf("%d entries in the log of Raft for %d renewals", written, renewals)
	}
}
