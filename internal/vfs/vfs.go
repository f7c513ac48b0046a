// Package vfs is the file system interface through which all code accesses files.
//
// Errors say which operation failed on which file. Package osfs is the real
// file system; Mem is a disk in memory that can crash; Faulty wraps either of
// them, injects errors and records operations.
//
// What always holds, by number, so that code and tests can name it:
//
//	vfs-V1  The bytes of a file survive a crash only after Sync of that file.
//	vfs-V2  A name (created, renamed or removed) survives a crash only after
//	        SyncDir of the directory it is in.
//	vfs-V3  After a failed Sync nothing is known about the bytes written since
//	        the last successful one: no later Sync makes them durable.
//	vfs-V4  Bytes that Allocate added read as zero, and writing over them needs
//	        no further space on the disk, unless the file system copies on
//	        write: a Write may be ErrNoSpace there, and is not a failed disk.
//
// The package starts no goroutine and reads no clock. It does not buffer, retry
// or hide an error.
package vfs

import (
	"errors"
	"io"
)

// ErrNoSpace marks every error that means the disk, or the user's quota on it,
// is full. Test with errors.Is.
var ErrNoSpace = errors.New("no space left on device")

// ErrLocked is the error of Lock when another process holds the directory.
var ErrLocked = errors.New("locked by another process")

// File is an open file. One goroutine uses it at a time. Write and Read start
// at offset 0 and move on together, as with a file descriptor; ReadAt and WriteAt
// leave that offset alone.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer

	// Size is the length of the file in bytes, written or allocated.
	Size() (int64, error)

	// Sync makes the bytes of the file and its length durable (vfs-V1). Times and
	// permissions may lag.
	Sync() error

	// Truncate cuts or extends the file to size bytes; new bytes are zero and
	// may need space later.
	Truncate(size int64) error

	// Allocate makes the file at least size bytes long, with space on the disk
	// for each of them (vfs-V4). It never shortens and never moves the offset.
	Allocate(size int64) error
}

// Info is what Stat reports of a name.
type Info struct {
	Size int64 // bytes, of a file
	Dir  bool
}

// FS is a file system. Errors wrap fs.ErrNotExist, fs.ErrExist and
// fs.ErrPermission where these apply, and ErrNoSpace.
type FS interface {
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string) (File, error)
	// Create makes an empty file, or empties an existing one, for reading and writing.
	Create(name string) (File, error)
	// OpenAppend opens a file for reading and writing, and makes it if there is none.
	// Every Write goes to the end of the file, also when others write there too.
	OpenAppend(name string) (File, error)
	// Rename gives a file another name in the same directory, in one step; a
	// file that had that name is gone.
	Rename(source, target string) error
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// List returns the names in a directory, sorted as text.
	List(dir string) ([]string, error)
	// Stat returns what a name is.
	Stat(name string) (Info, error)
	// MkdirAll makes a directory and its parents; an existing one is no error.
	MkdirAll(dir string) error
	// SyncDir makes the names in a directory durable (vfs-V2).
	SyncDir(dir string) error
	// Lock takes an advisory lock on a directory until the Closer is closed or
	// the process ends, however it ends. If the lock is taken, the error is
	// ErrLocked.
	Lock(dir string) (io.Closer, error)
}
