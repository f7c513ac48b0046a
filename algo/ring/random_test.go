package ring_test

import (
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/algotest"
)

// Whatever crashed, restarted and stepped down before: once messages arrive and nothing
// changes any more, the greatest candidate leads, and no other member does.
func TestOneLeadsWhenMessagesArrive(t *testing.T) {
	elections := 0
	for seed := range uint64(100) {
		n, err := algotest.Converge(seed, maker(t), func(id, than algo.ID) bool { return id > than })
		if err != nil {
			t.Fatal(err)
		}
		elections += n
	}
	if elections < 300 {
		t.Errorf("only %d elections: the test does not test", elections)
	}
}
