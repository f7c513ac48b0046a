//go:build linux

package floor

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"syscall"
)

// A record is the unit of writing and syncing: length 4 | checksum 4 | requests.
const recordHeaderBytes = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func beginRecord(b []byte) []byte { return append(b, make([]byte, recordHeaderBytes)...) }

func endRecord(record []byte) {
	requests := record[recordHeaderBytes:]
	binary.BigEndian.PutUint32(record, uint32(len(requests)))
	binary.BigEndian.PutUint32(record[4:], crc32.Checksum(requests, castagnoli))
}

// A Log is one file whose space was allocated before, so a sync need not wait for the file
// system to allocate.
type Log struct {
	file *os.File
	end  int64
	size int64
	sync func() error // replaced by tests
}

// NewLog creates the file of a log.
func NewLog(name string, size int64) (*Log, error) {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	fd := int(file.Fd())
	if err := syscall.Fallocate(fd, 0, 0, size); err != nil {
		return nil, fmt.Errorf("floor: take %d MiB of the disk: %w", size>>20, err)
	}
	if err := file.Sync(); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return &Log{file: file, size: size, sync: func() error { return syscall.Fdatasync(fd) }}, nil
}

// append returns when a record is on the disk.
func (l *Log) append(record []byte) error {
	if l.end+int64(len(record)) > l.size {
		return fmt.Errorf("floor: the log is full, at %d MiB", l.size>>20)
	}
	if _, err := l.file.WriteAt(record, l.end); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	l.end += int64(len(record))
	if err := l.sync(); err != nil {
		return fmt.Errorf("floor: sync: %w", err)
	}
	return nil
}
