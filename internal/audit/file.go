package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/vfs"
)

// file is the file that is being written, and the files before it: name.1 is the previous one, and
// name.kept the oldest. Only one goroutine uses it at a time.
type file struct {
	fs       vfs.FS
	name     string
	bytesMax int64
	kept     int

	out  vfs.File // nil if it has to be opened
	size int64
	torn bool // its last line is incomplete
	ours bool // what is written next is the rest of that line
}

func (f *file) open() error {
	out, err := f.fs.OpenAppend(f.name)
	if err != nil {
		return err
	}
	size, err := out.Size()
	last := []byte{'\n'}
	if err == nil && size > 0 {
		_, err = out.ReadAt(last, size-1)
	}
	if err != nil {
		out.Close()
		return err
	}
	f.out, f.size, f.torn, f.ours = out, size, last[0] != '\n', false
	return nil
}

// write appends lines. It returns how many bytes it has dealt with, and how many of their lines it
// could not write. The bytes end in the middle of a line only if there is an error.
func (f *file) write(b []byte) (n, lost int, err error) {
	within := f.torn && f.ours
	if err := f.reopen(); err != nil {
		return 0, 0, err
	}
	if within && !f.ours { // the file with the beginning of the line is gone
		n, lost = bytes.IndexByte(b, '\n')+1, 1
	}
	if f.torn && !f.ours && n < len(b) {
		if err := f.put([]byte{'\n'}); err != nil {
			return n, lost, err
		}
	}
	for n < len(b) {
		part, err := f.fitting(b[n:])
		if err != nil {
			return n, lost, err
		}
		before := f.size
		err = f.put(part)
		n += int(f.size - before)
		if err != nil {
			return n, lost, err
		}
	}
	return n, lost, nil
}

func (f *file) put(b []byte) error {
	n, err := f.out.Write(b)
	if n > 0 {
		f.size += int64(n)
		f.torn = b[n-1] != '\n'
		f.ours = f.torn
	}
	return err
}

// reopen opens the file again if another file has its name, because somebody has moved it away or
// shortened it.
func (f *file) reopen() error {
	if f.out != nil {
		info, err := f.fs.Stat(f.name)
		switch {
		case err == nil && info.Size == f.size:
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		}
		f.out.Close()
		f.out = nil
	}
	return f.open()
}

// fitting returns the lines for which the file has space, at least one. If there is no space for
// the first of them, a new file is begun, unless the line is longer than a file.
func (f *file) fitting(b []byte) ([]byte, error) {
	space := f.bytesMax - f.size
	if int64(len(b)) <= space {
		return b, nil
	}
	if end := bytes.LastIndexByte(b[:max(0, space)], '\n'); end >= 0 {
		return b[:end+1], nil
	}
	first := b[:bytes.IndexByte(b, '\n')+1]
	if f.size == 0 || f.torn {
		return first, nil
	}
	if err := f.rotate(); err != nil {
		return nil, err
	}
	return f.fitting(b)
}

// rotate begins a new file. If it fails, it can be repeated from wherever that was, and loses no
// file by that: the older files are renamed only up to the first name that is free.
func (f *file) rotate() error {
	if err := f.out.Sync(); err != nil {
		return err
	}
	f.out.Close()
	f.out = nil
	free := 1
	for ; free < f.kept; free++ {
		there, err := vfs.Exists(f.fs, f.before(free))
		if err != nil {
			return err
		}
		if !there {
			break
		}
	}
	for ; free > 1; free-- {
		if err := f.fs.Rename(f.before(free-1), f.before(free)); err != nil {
			return err
		}
	}
	if err := f.fs.Rename(f.name, f.before(1)); err != nil {
		return err
	}
	if err := f.fs.SyncDir(filepath.Dir(f.name)); err != nil {
		return err
	}
	return f.open()
}

func (f *file) before(n int) string { return fmt.Sprintf("%s.%d", f.name, n) }

// close makes the file durable and closes it.
func (f *file) close() error {
	if f.out == nil {
		return nil
	}
	err := f.out.Sync()
	if closeErr := f.out.Close(); err == nil {
		err = closeErr
	}
	f.out = nil
	return err
}
