package replicadisk

import (
	"sync"
	"testing"

	"github.com/conclave-project/conclave/internal/tree"
)

// The loop begins snapshots while links and the snapshot goroutine end others. For the race
// detector; without it a lost registration shows as a wrong count.
func TestSnapshotsBeginAndEndBesideEachOther(t *testing.T) {
	tr := tree.New(tree.Options{})
	var others sync.WaitGroup
	for range 200 {
		for range 2 {
			s := Begin(tr, nil)
			others.Go(s.End)
		}
	}
	others.Wait()
	if n := tr.Scans(); n != 0 {
		t.Fatalf("%d scans are registered after all have ended", n)
	}
}
