package server

import (
	"testing"

	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/zab"
)

// The result of an older attempt to connect, or of none, does not end the role that the server
// has begun since; the result of the present one does.
func TestAFailedConnectEndsTheRoleItWasMadeForAlone(t *testing.T) {
	s := &Server{peers: &peers{outgoing: 7}}
	down := func(link zab.LinkID) zab.LinkID {
		batch := []replica.Event{{Kind: replica.EventLinkDown, Link: link}}
		s.dropStale(batch)
		return batch[0].Link
	}
	if got := down(6); got != 6 {
		t.Errorf("the failure of attempt 6 is told as that of link %d, and would end the role of attempt 7", got)
	}
	if got := down(7); got != 0 {
		t.Errorf("the failure of attempt 7 is told as that of link %d, which no role has", got)
	}
	s.dropStale([]replica.Event{{Kind: replica.EventLinkUp, Link: 7, Outgoing: true}})
	if got := down(7); got != 7 {
		t.Errorf("the end of link 7 is told as that of link %d", got)
	}
}
