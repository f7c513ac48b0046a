package datadir

import (
	"errors"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Where both epoch files are written at a time, the promise comes first: a crash between the two
// leaves a directory that is not refused, with epochs that have not fallen.
func TestCrashBetweenTheEpochFilesIsNoLostPromise(t *testing.T) {
	const before, after = uint32(3), uint32(7)
	noted := func(s *Store) error { // of a history that has none
		_, err := s.LoadEpochs(zk.MakeZxid(before, 1))
		return err
	}
	raised := func(s *Store) error { return errors.Join(noted(s), s.RaiseEpochs(after)) }
	for what, c := range map[string]struct {
		write func(*Store) error
		ends  uint32
	}{"made": {noted, before}, "raised": {raised, after}} {
		for fail := 1; ; fail++ {
			disk, changes, opened := vfs.NewMem(), 0, false
			must(t, open(t, disk).Close())
			s := open(t, &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
				if opened && op.Changes() {
					changes++
				}
				if changes >= fail {
					return errors.New("no power")
				}
				return nil
			}})
			opened = true
			failed := c.write(s) != nil
			for _, keep := range []int{0, 100} {
				crashed := open(t, disk.CrashClone(keep, int64(fail)))
				accepted, _, err := crashed.readEpoch(acceptedName)
				must(t, err)
				epochs, err := crashed.LoadEpochs(zk.MakeZxid(before, 1))
				if err != nil || epochs.Accepted < epochs.Current || epochs.Current < before {
					t.Fatalf("%s, operation %d, %d %% kept: %+v, %v", what, fail, keep, epochs, err)
				}
				if !failed && accepted != c.ends {
					t.Errorf("%s: %d is promised on the disk", what, accepted)
				}
			}
			if !failed {
				break
			}
		}
	}
}
