package snap

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Writer writes one snapshot file. It is an Encoder that ends with Commit or
// Abort. One goroutine uses it; several Writers of different zxids may be at
// work in one directory.
type Writer struct {
	*Encoder
	fs     vfs.FS
	dir    string
	name   string
	temp   string
	file   vfs.File
	packer io.WriteCloser
}

// Create begins the snapshot of zxid in dir, under a temporary name that other
// servers ignore.
func Create(fsys vfs.FS, dir string, zxid zk.Zxid, c Compression) (*Writer, error) {
	name := Name(zxid, c)
	w := &Writer{fs: fsys, dir: dir, name: name, temp: filepath.Join(dir, tempPrefix+name)}
	file, err := fsys.Create(w.temp)
	if err != nil {
		return nil, fmt.Errorf("create snapshot %s: %w", name, err)
	}
	w.file = file
	if w.packer, err = compressor(c, file); err != nil {
		w.Abort()
		return nil, fmt.Errorf("create snapshot %s: %w", name, err)
	}
	w.Encoder = NewEncoder(w.packer)
	return w, nil
}

// Name is the file's final name, without the directory.
func (w *Writer) Name() string { return w.name }

// Commit makes the snapshot durable and gives it its name. Call it behind End.
// On any error the file is removed; on a full disk that is vfs.ErrNoSpace and
// the snapshot may be tried again later.
func (w *Writer) Commit() error {
	err := w.commit()
	if err != nil {
		w.Abort()
		return fmt.Errorf("write snapshot %s: %w", w.name, err)
	}
	return nil
}

func (w *Writer) commit() error {
	if w.err == nil && w.stage != stageEnded {
		w.err = errOrder
	}
	if w.err != nil {
		return w.err
	}
	if err := w.packer.Close(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	err := w.file.Close()
	w.file = nil
	if err != nil {
		return err
	}
	if err := w.fs.Rename(w.temp, filepath.Join(w.dir, w.name)); err != nil {
		return err
	}
	w.temp = ""
	return w.fs.SyncDir(w.dir)
}

// Abort gives the snapshot up and removes what was written. Behind a Commit
// that succeeded it does nothing.
func (w *Writer) Abort() {
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
	if w.temp != "" {
		_ = w.fs.Remove(w.temp) // what stays is ignored and removed at the next start
		w.temp = ""
	}
}
