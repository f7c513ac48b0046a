package bubble

import (
	"math/rand/v2"
	"time"

	"github.com/conclave-project/conclave/internal/vfs"
)

// SlowDisk returns a disk on which some files take time to sync: up to 100 ms, and one sync in
// fifty up to seldom. At each sync, it asks which files these are. Only one goroutine may sync
// them, because random is not guarded.
func SlowDisk(fs vfs.FS, ofSlow func(name string) bool, seldom time.Duration, random *rand.Rand) vfs.FS {
	return slowDisk{fs, ofSlow, seldom, random}
}

type slowDisk struct {
	vfs.FS
	ofSlow func(name string) bool
	seldom time.Duration
	random *rand.Rand
}

func (d slowDisk) Create(name string) (vfs.File, error) {
	file, err := d.FS.Create(name)
	return d.slow(name, file, err)
}

func (d slowDisk) OpenReadWrite(name string) (vfs.File, error) {
	file, err := d.FS.OpenReadWrite(name)
	return d.slow(name, file, err)
}

func (d slowDisk) slow(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return file, err
	}
	return slowFile{file, name, d}, nil
}

type slowFile struct {
	vfs.File
	name string
	disk slowDisk
}

func (f slowFile) Sync() error {
	if !f.disk.ofSlow(f.name) {
		return f.File.Sync()
	}
	most := 100 * time.Millisecond
	if f.disk.random.IntN(50) == 0 {
		most = f.disk.seldom
	}
	time.Sleep(time.Duration(f.disk.random.Int64N(int64(most))))
	return f.File.Sync()
}
