package replica

import (
	"testing"

	"github.com/conclave-project/conclave/internal/ensemble"
)

// The oracle decides in an ensemble of two participants whose votes are worth the same, as long
// as no change of it is under way, and only for participants.
func TestOracleHasASayOfTwoParticipants(t *testing.T) {
	parse := func(text string) *ensemble.Config {
		c, err := ensemble.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const two = "server.1=a:1:2:participant\nserver.2=b:1:2:participant\n"
	for text, want := range map[string]bool{
		two + "version=0":                                  true,
		two + "server.3=c:1:2:observer\nversion=0":         true,
		two + "server.3=c:1:2:participant\nversion=0":      false,
		two + "group.1=1:2\nversion=0":                     false,
		"server.1=a:1:2:participant\nversion=0":            false,
		two + "group.1=1:2\nweight.1=2\nversion=100000001": false,
	} {
		e := ensembleState{id: 1, oracle: true, inForce: parse(text)}
		if e.alone() || !e.take(true) || e.take(true) {
			t.Errorf("%s: it is alone before it is permitted, or that is no news, or twice", text)
		}
		if e.alone() != want || e.ofTwo() != want {
			t.Errorf("%s: of two %v, alone %v", text, e.ofTwo(), e.alone())
		}
		if e.next = parse(two + "version=200000001"); e.alone() {
			t.Errorf("%s: alone while a change is under way", text)
		}
		observer := ensembleState{id: 3, oracle: true, permits: true, inForce: parse(text)}
		if observer.alone() {
			t.Errorf("%s: server 3 is alone", text)
		}
		without := ensembleState{id: 1, permits: true, inForce: parse(text)}
		if without.alone() {
			t.Errorf("%s: alone without an oracle", text)
		}
	}
}
