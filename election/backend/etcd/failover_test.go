//go:build conformance && linux

package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/overlap"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// TestFailoverOfEtcdElectsNoTwo pauses and kills the server that leads etcd, again
// and again, while candidates lead, resign, and are paused and killed: an old
// leader of etcd that resumes must not extend a lease that has ended (etcd-D5).
func TestFailoverOfEtcdElectsNoTwo(t *testing.T) {
	s := stores.Start(t, "etcd-cluster")
	overlap.Run(t, overlap.Shared{
		Backend: open(t, s.URL), URLs: []string{s.URL}, Election: "e", Lease: lease, Handovers: 20, Patience: time.Minute,
		Leads: overlap.Failovers(t, 2*lease, func() overlap.Server { return s.Part(leaderOf(t, s)) }),
	})
}

// leaderOf returns the name of the server that leads.
func leaderOf(t testing.TB, s *stores.Server) string {
	t.Helper()
	leader := -1
	awaittest.Until(t, "a server leads", func() bool {
		leader = slices.IndexFunc(strings.Split(s.Note["addrs"], ","), func(addr string) bool { return leads(t, addr) })
		return leader >= 0
	})
	return fmt.Sprint("e", leader+1)
}

func leads(t testing.TB, addr string) bool {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	status, err := client.Status(ctx, addr)
	return err == nil && status.Leader == status.Header.MemberId
}
