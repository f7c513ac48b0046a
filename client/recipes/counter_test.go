package recipes

import (
	"math"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
)

// TestCounterDoesNotWrapAround adds two large numbers; their sum must not be a
// small one.
func TestCounterDoesNotWrapAround(t *testing.T) {
	n, ctx := NewCounter(dialed(t, serve(t), client.Options{}), "/n", Options{}), awaittest.Within(t)
	for _, end := range []struct{ at, beyond int64 }{{math.MaxInt64, 1}, {math.MinInt64, -1}} {
		value, err := n.Value(ctx)
		must(t, err)
		if value != 0 {
			_, err = n.Add(ctx, -value)
			must(t, err)
		}
		_, err = n.Add(ctx, end.at)
		must(t, err)
		if got, err := n.Add(ctx, end.beyond); err == nil || client.OutcomeOf(err) == client.Applied {
			t.Errorf("%d and %d are %d", end.at, end.beyond, got)
		}
		if got, err := n.Value(ctx); got != end.at || err != nil {
			t.Errorf("the counter is %d, %v", got, err)
		}
		if end.at > 0 {
			_, err = n.Add(ctx, -end.at)
			must(t, err)
		}
	}
}
