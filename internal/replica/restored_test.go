package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// A session from before a restore ends, because what its client was told is undone.
func TestSessionsFromBeforeARestoreEnd(t *testing.T) {
	s := newScript(t)
	s.command([]string{"connect", "1"})
	s.command([]string{"sync"})
	s.step()
	z := s.replica.tree
	z.Lock()
	z.SetLastZxid(zk.MakeZxid(3+RestoredEpochs, 0))
	z.Unlock()
	for i, c := range []struct {
		seen zk.Zxid
		ends bool
	}{{zk.MakeZxid(3, 9), true}, {zk.MakeZxid(4, 0), false}, {zk.MakeZxid(3+RestoredEpochs, 0), false}, {0, false}} {
		s.seen = nil
		s.command([]string{"connect", fmt.Sprint(i + 2), "session=S1", fmt.Sprintf("seen=%d", c.seen)})
		s.step()
		if said := strings.Join(s.seen, "; "); strings.Contains(said, "refused") != c.ends {
			t.Errorf("seen %v: %s", c.seen, said)
		}
	}
}
