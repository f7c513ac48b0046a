//go:build conformance && linux

package consul_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/overlap"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/hashicorp/consul/api"
)

// TestFailoverOfConsulElectsNoTwo pauses and kills the server that leads
// Consul, and with it the agent of one candidate, while candidates lead,
// resign, and are paused and killed: an old leader of Consul that resumes
// accepts renewals of sessions that have ended (consul-C3).
func TestFailoverOfConsulElectsNoTwo(t *testing.T) {
	s := stores.Start(t, "consul-cluster")
	addrs := strings.Split(s.Note["addrs"], ",")
	var urls []string
	for _, addr := range addrs {
		urls = append(urls, strings.Replace(s.URL, s.Addr, addr, 1))
	}
	overlap.Run(t, overlap.Shared{
		Backend: open(t, urls[0]), URLs: urls, Election: "e", Lease: lease, Handovers: 20, Patience: time.Minute,
		Leads: overlap.Failovers(t, 3*lease, func() overlap.Server { return s.Part(leaderOf(t, addrs)) }),
	})
}

// leaderOf returns the name of the server that says it leads.
func leaderOf(t testing.TB, addrs []string) string {
	t.Helper()
	leader := -1
	awaittest.Until(t, "a server leads", func() bool {
		leader = slices.IndexFunc(addrs, func(addr string) bool { return leads(t, addr) })
		return leader >= 0
	})
	return fmt.Sprint("c", leader+1)
}

func leads(t testing.TB, addr string) bool {
	config := api.DefaultConfig()
	config.Address, config.HttpClient = addr, &http.Client{Timeout: time.Second}
	client, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	self, err := client.Agent().Self()
	if err != nil {
		return false
	}
	consul, _ := self["Stats"]["consul"].(map[string]any)
	return consul["leader"] == "true"
}
