package queue

import (
	"context"
	"testing"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// witness remembers for how long an observer was asked to live.
type witness struct {
	*memory
	life context.Context
}

func (w *witness) Observe(life context.Context, name string) Observer {
	w.life = life
	return w.memory.Observe(life, name)
}

// TestObserverThatIsLeftEarlyLeavesNothing: a program that asks who leads, again and
// again with the context of its life, gathers no watches.
func TestObserverThatIsLeftEarlyLeavesNothing(t *testing.T) {
	w := &witness{memory: newMemory()}
	for _, err := range New(w, Options{}).Observe(awaittest.Within(t), "e") {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if w.life.Err() == nil {
		t.Error("what shows the election lives on")
	}
}
