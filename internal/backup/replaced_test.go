package backup_test

import (
	"testing"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
)

// A leader's state was replacing what a server had, and the server ended: its files belong to
// two histories.
func TestHalfReplacedDirectoryIsNotTaken(t *testing.T) {
	w := newWritten(t)
	w.create(1, 20)
	w.must(vfs.ReplaceFile(w.disk, "/data/version-2/replacing", "/data/version-2/t", []byte("snapshot.14\n")))
	mem := vfs.NewMem()
	taken, err := open(t, backup.OpenDir(mem, "/")).Take(t.Context(), w.source(backup.AllCommitted), backup.Options{})
	if err == nil {
		t.Errorf("%+v of %v", taken, pieces(t, mem))
	}
}
