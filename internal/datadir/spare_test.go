package datadir

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

// No space is left on the disk of the snapshots, and that of the log has some. So the server can follow and
// lead, and it promises epochs, one after the other.
func TestEpochsArePromisedOnAFullDisk(t *testing.T) {
	disk := vfs.NewMem()
	s := open(t, disk)
	_, err := s.LoadEpochs(0)
	must(t, err)
	disk.SetCapacity(disk.Used())
	for epoch := uint32(1); epoch < 20; epoch++ {
		must(t, s.SetAccepted(epoch))
		must(t, s.SetCurrent(epoch))
		for _, keep := range []int{0, 50, 100} {
			again, err := open(t, disk.CrashClone(keep, int64(epoch))).LoadEpochs(0)
			if want := (Epochs{epoch, epoch}); err != nil || again != want {
				t.Fatalf("%d %% kept: %+v %v, want %+v", keep, again, err, want)
			}
		}
	}
}

// A crash at any moment leaves one epoch or the other.
func TestCrashWhileTheSpareIsSpentLosesNoEpoch(t *testing.T) {
	for fail := 1; ; fail++ {
		disk, changes, began := vfs.NewMem(), 0, false
		s := open(t, &vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
			if began && op.Changes() {
				if changes++; changes >= fail {
					return errors.New("no power")
				}
			}
			return nil
		}})
		_, err := s.LoadEpochs(0)
		must(t, err)
		must(t, s.SetAccepted(12345)) // the next one is shorter
		disk.SetCapacity(disk.Used())
		began = true
		s.epochs.Accepted = 0
		failed := s.SetAccepted(7) != nil
		for _, keep := range []int{0, 50, 100} {
			again, err := open(t, disk.CrashClone(keep, int64(fail))).LoadEpochs(0)
			if err != nil || again.Accepted != 7 && (again.Accepted != 12345 || !failed) {
				t.Fatalf("operation %d, failed is %v, %d %% kept: %+v %v", fail, failed, keep, again, err)
			}
		}
		if changes < fail {
			return
		}
	}
}

// Without a spare, an epoch waits for space as everything else does.
func TestWithoutASpareAnEpochNeedsSpace(t *testing.T) {
	disk := vfs.NewMem()
	s := open(t, disk)
	_, err := s.LoadEpochs(0)
	must(t, err)
	must(t, disk.Remove(filepath.Join(s.snapDir, spareName)))
	disk.SetCapacity(disk.Used())
	if err := s.SetAccepted(1); !errors.Is(err, vfs.ErrNoSpace) {
		t.Errorf("%v", err)
	}
	disk.SetCapacity(-1)
	must(t, s.SetAccepted(1))
}
