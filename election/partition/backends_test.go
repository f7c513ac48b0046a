package partition_test

import (
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/partition"
	"github.com/conclave-project/conclave/election/record"
)

// Every shape of backend carries a group: one with a queue (the other tests), one
// that sees only who is the successor, one that watches files.
func TestGroupOnEveryShapeOfBackend(t *testing.T) {
	memory := record.NewMemory(nil)
	dir := t.TempDir()
	for name, open := range map[string]func() (election.Backend, error){
		"record": func() (election.Backend, error) { return record.New(memory, record.Options{}), nil },
		"file":   func() (election.Backend, error) { return file.New(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGroup(t, 6, func(o *partition.Options) {
				o.MembersMax, o.MaxMoves, o.Election.Lease = 3, 2, time.Second
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
		})
	}
}
