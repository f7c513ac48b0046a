package datadir

import (
	"errors"
	"fmt"
	"testing"

	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// started is what a start takes for its history.
type started struct {
	last                        zk.Zxid
	count                       int
	fresh, rejoining, replacing bool
	epochs                      Epochs
}

func start(fsys vfs.FS, options Options) (is started, err error) {
	options.DataDir, options.LogDir, options.Number, options.Log = "data", "logs", numbers(), txnlog.Options{PreallocBytes: 4096}
	s, err := Open(fsys, options)
	if err != nil {
		return is, err
	}
	defer s.Close()
	r, err := s.Recover(newModel)
	if err != nil {
		return is, err
	}
	is = started{last: r.Last, count: len(r.Target.(*model).zxids), fresh: r.Fresh, rejoining: r.Rejoining, replacing: r.Replacing}
	is.epochs, err = s.LoadEpochs(max(r.Last, 0))
	return is, err
}

// TestAFailedOperationOfAStartGivesNoOtherHistory: whatever cannot be read or written, the start
// ends with an error, or has what it has without the failure. So has the next one.
func TestAFailedOperationOfAStartGivesNoOtherHistory(t *testing.T) {
	write := func(t testing.TB, disk *vfs.Mem, name, content string) {
		t.Helper()
		must(t, disk.MkdirAll("data/version-2"))
		must(t, disk.MkdirAll("logs"))
		must(t, vfs.ReplaceFile(disk, name, name+".tmp", []byte(content)))
	}
	broken := errors.New("input/output error")
	for _, c := range []struct {
		name    string
		options Options
		make    func(t testing.TB) *vfs.Mem
		want    string // of the start without a failure
	}{
		{"whole", Options{}, directory, "25 25 false false false"},
		{"whole, alone", Options{Alone: true}, directory, "25 25 false false false"},
		{"its end torn", Options{}, func(t testing.TB) *vfs.Mem {
			disk := directory(t)
			f, err := disk.OpenReadWrite("logs/version-2/log.15")
			must(t, err)
			_, err = f.WriteAt([]byte{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 2, 0, 9, 9}, end(t, disk))
			must(t, err)
			must(t, f.Sync())
			must(t, f.Close())
			return disk
		}, "25 25 false false false"},
		{"the newest snapshot damaged", Options{}, func(t testing.TB) *vfs.Mem {
			disk := directory(t)
			damage(t, disk, "data/version-2/snapshot.14", 700)
			return disk
		}, "25 25 false false false"},
		{"rejoining", Options{}, func(t testing.TB) *vfs.Mem {
			disk := directory(t)
			write(t, disk, "data/version-2/"+rejoiningName, "lost\n")
			return disk
		}, "25 25 false true false"},
		{"being replaced", Options{}, func(t testing.TB) *vfs.Mem {
			disk := directory(t)
			s := open(t, disk)
			_, err := s.Recover(newModel)
			must(t, err)
			must(t, writeReplacement(s))
			must(t, s.Close())
			return disk
		}, fmt.Sprintf("%d 20 false false true", leaders)},
		{"a replacement that never got its name", Options{}, func(t testing.TB) *vfs.Mem {
			disk := directory(t)
			write(t, disk, "data/version-2/"+replacingName, "snapshot.100000000 10 bytes 00000000\n")
			return disk
		}, "25 25 false false false"},
		{"empty", Options{}, func(testing.TB) *vfs.Mem { return vfs.NewMem() }, "0 0 true false false"},
		{"empty, of a server that has lost its disk", Options{NoCreateDB: true}, func(testing.TB) *vfs.Mem { return vfs.NewMem() }, "-1 0 false false false"},
		{"empty, and may begin", Options{NoCreateDB: true}, func(t testing.TB) *vfs.Mem {
			disk := vfs.NewMem()
			write(t, disk, "logs/initialize", "")
			return disk
		}, "0 0 true false false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sound := c.make(t)
			twice := sound.KillClone()
			first, err := start(twice, c.options)
			must(t, err)
			if got := fmt.Sprint(int64(first.last), first.count, first.fresh, first.rejoining, first.replacing); got != c.want {
				t.Fatalf("without a failure: %s, want %s", got, c.want)
			}
			second, err := start(twice, c.options)
			must(t, err)
			for fail := 1; ; fail++ {
				disk, count := sound.KillClone(), 0
				var failed vfs.Op
				got, err := start(&vfs.Faulty{Disk: disk, Before: func(op vfs.Op) error {
					if count++; count == fail {
						failed = op
						return broken
					}
					return nil
				}}, c.options)
				if count < fail {
					must(t, err)
					break
				}
				if err == nil && got != first {
					t.Errorf("%s fails: %+v, want %+v", failed, got, first)
				}
				next, err := start(disk, c.options)
				if err != nil || next != first && next != second {
					t.Errorf("%s has failed: the next start has %+v, %v, want %+v", failed, next, err, second)
				}
			}
		})
	}
}

// end returns where the log of directory ends.
func end(t testing.TB, disk *vfs.Mem) int64 {
	t.Helper()
	s := open(t, disk.KillClone())
	defer s.Close()
	_, err := s.Recover(newModel)
	must(t, err)
	r, err := s.ReadLog(24)
	must(t, err)
	defer r.Close()
	record, err := r.Next()
	must(t, err)
	if record.Zxid != 25 {
		t.Fatal(record.Zxid)
	}
	return record.Offset + 8 + 4 + int64(len(record.Payload)) + 1 // its checksum, its length, its payload, and its last byte
}

func TestAServerThatIsAloneDoesNotTakeAPartForTheWhole(t *testing.T) {
	disk := directory(t)
	must(t, vfs.ReplaceFile(disk, "data/version-2/"+rejoiningName, "data/version-2/t", []byte("lost\n")))
	s := open(t, disk)
	s.options.Alone = true
	if _, err := s.Recover(newModel); err == nil || err.Error() != "recover from data/version-2: "+s.RejoiningText() {
		t.Error(err)
	}
	must(t, s.Close())
}
