//go:build linux && robust

package robust

import (
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/test/servers"
)

// TestServerZeroLeadsWithTheNewestData: of three servers 0, 1 and 2, the first two have a
// write that the third missed. Then the second goes down and the third comes up: only the
// first has the data, and no other may lead.
func TestServerZeroLeadsWithTheNewestData(t *testing.T) {
	e, err := servers.NewEnsemble(t.Context(), servers.EnsembleOptions{
		Kinds: []servers.Kind{kind(t), kind(t), kind(t)}, FromZero: true,
	})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s\n%s", e.Describe(), e.LogTails(3000))
		}
		must(t, e.Close())
	})
	must(t, e.Start(t.Context()))
	must(t, e.Member(2).Stop())
	c := connect(t, e.Addrs(), fullTimeout)
	_, _, err = c.Create(t.Context(), "/newest", []byte("data"), client.CreateOptions{})
	must(t, err)
	must(t, e.Member(0).Kill())
	must(t, e.Member(1).Kill())
	must(t, e.Member(0).Launch(t.Context()))
	must(t, e.Member(2).Launch(t.Context()))
	must(t, e.Member(0).AwaitMode(t.Context(), "leader"))
	must(t, e.Member(2).AwaitMode(t.Context(), "follower"))
	data, _, err := connect(t, e.Member(2).Addr, fullTimeout).Get(t.Context(), "/newest")
	must(t, err)
	if string(data) != "data" {
		t.Errorf("/newest is %q", data)
	}
}
