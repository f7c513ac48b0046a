package partition_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/bubble"
)

// A group works on every kind of backend: one with a queue (the other tests), one
// that shows only the successor, and one that watches files.
func TestGroupOnEveryShapeOfBackend(t *testing.T) {
	t.Run("record", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := bubble.Clock(1)
			memory := record.NewMemory(c)
			carries(t, election.Options{Lease: time.Second, Clock: c}, func() (election.Backend, error) {
				return record.New(memory, record.Options{Clock: c}), nil
			})
		})
	})
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		// With files, the lease has no influence on how fast the next leader follows.
		carries(t, election.Options{Lease: 10 * time.Second}, func() (election.Backend, error) { return file.New(dir) })
	})
}

func carries(t *testing.T, like election.Options, open func() (election.Backend, error)) {
	g := newGroup(t, 6, func(o *partition.Options) {
		o.MembersMax, o.MaxMoves, o.Election.Lease, o.Election.Clock = 3, 2, like.Lease, like.Clock
	})
	join := func(id string) *member {
		backend, err := open()
		if err != nil {
			t.Fatal(err)
		}
		return g.join(backend, id)
	}
	a := join("a")
	g.awaitEven("a")
	moves, _ := g.during(func() {
		join("b")
		g.awaitEven("a", "b")
	})
	if moves != 3 {
		t.Errorf("%d partitions moved, expected 3", moves)
	}
	join("c")
	g.awaitEven("a", "b", "c")
	a.Leave()
	g.awaitEven("b", "c")
	if err := a.await(t); err != nil {
		t.Errorf("Run returned %v", err)
	}
}
