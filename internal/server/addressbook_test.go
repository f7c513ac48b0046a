package server

import (
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
)

// A server whose reconfig is committed listens at its new ports; one that has not
// learned of the commit knows them by the proposal alone, and must find it there. Two
// servers that both moved would else never meet again.
func TestAServerIsLookedForWhereAReconfigTakesIt(t *testing.T) {
	config := func(text string) *ensemble.Config {
		c, err := ensemble.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	book := addressBook{
		inForce:  config("server.1=10.0.0.1:2888:3888\nserver.2=10.0.0.2:2888:3888\nserver.3=10.0.0.3:2888:3888\nversion=0"),
		proposed: config("server.1=10.0.0.1:2889:3889\nserver.2=10.0.0.2:2888:3888\nserver.4=10.0.0.4:2888:3888\nversion=1"),
	}
	for _, c := range []struct {
		id           int64
		links, votes string
	}{
		{1, "[10.0.0.1:2888 10.0.0.1:2889]", "[10.0.0.1:3888 10.0.0.1:3889]"},
		{2, "[10.0.0.2:2888]", "[10.0.0.2:3888]"},
		{3, "[10.0.0.3:2888]", "[10.0.0.3:3888]"},
		{4, "[10.0.0.4:2888]", "[10.0.0.4:3888]"},
		{5, "[]", "[]"},
	} {
		id := quorum.ID(c.id)
		if got := fmt.Sprint(book.find(id, quorumOf)); got != c.links {
			t.Errorf("server %d takes learners at %s, want %s", c.id, got, c.links)
		}
		if got := fmt.Sprint(book.find(id, electionOf)); got != c.votes {
			t.Errorf("server %d takes votes at %s, want %s", c.id, got, c.votes)
		}
	}
}
