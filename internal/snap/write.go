package snap

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/invariant"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Writer writes one snapshot file. It is an Encoder that ends with Commit or Abort. One
// goroutine uses it; several Writers of different zxids may work in one directory.
type Writer struct {
	*Encoder
	fs     vfs.FS
	dir    string
	name   string
	temp   string
	file   vfs.Stream
	packer io.WriteCloser

	appeared bool
}

// Create begins the snapshot of zxid in dir, under a temporary name that other servers ignore.
// Two calls for one directory must not run at the same time.
func Create(fsys vfs.FS, dir string, zxid zk.Zxid, c Compression) (*Writer, error) {
	name := Name(zxid, c)
	w := &Writer{fs: fsys, dir: dir, name: name}
	file, err := w.createTemp()
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

// createTemp creates a file that no other Writer uses: a leader's state may be saved while a
// periodic snapshot of the same zxid is written.
func (w *Writer) createTemp() (vfs.Stream, error) {
	for temp := filepath.Join(w.dir, tempPrefix+w.name); ; temp += "+" {
		if taken, err := vfs.Exists(w.fs, temp); err != nil {
			return nil, err
		} else if !taken {
			w.temp = temp
			return vfs.CreateStream(w.fs, temp)
		}
	}
}

// Name returns the file's final name, without the directory.
func (w *Writer) Name() string { return w.name }

// Finish makes what was written durable, under its temporary name. Call it after End, or leave
// it to Commit. On any error the file is removed. On a full disk the error is vfs.ErrNoSpace,
// and the snapshot may be tried again later.
func (w *Writer) Finish() error { return w.or(w.finish()) }

// Commit finishes the snapshot and gives it its name. Errors are those of Finish.
func (w *Writer) Commit() error {
	if err := w.Finish(); err != nil {
		return err
	}
	return w.or(w.appear())
}

// or removes the file if there is an error.
func (w *Writer) or(err error) error {
	if err == nil {
		return nil
	}
	w.Abort()
	return fmt.Errorf("write snapshot %s: %w", w.name, err)
}

func (w *Writer) finish() error {
	if w.err == nil && w.stage != stageEnded {
		w.err = errOrder
	}
	if w.err != nil {
		return w.err
	}
	if w.file == nil {
		return nil // finished already
	}
	if err := w.packer.Close(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// appear gives the finished file its final name.
func (w *Writer) appear() error {
	invariant.Check(w.stage == stageEnded && w.file == nil, "snap: a file gets its name before it is on disk (snap-P1)")
	if err := w.fs.Rename(w.temp, filepath.Join(w.dir, w.name)); err != nil {
		return err
	}
	w.temp, w.appeared = "", true
	return w.fs.SyncDir(w.dir)
}

// Appeared reports whether the snapshot has its final name, which a crash may still undo.
func (w *Writer) Appeared() bool { return w.appeared }

// Abort abandons the snapshot and removes what was written. After a successful Commit it does
// nothing.
func (w *Writer) Abort() {
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
	if w.temp != "" {
		_ = w.fs.Remove(w.temp) // a file that remains is ignored, and removed at the next start
		w.temp = ""
	}
}
