package vfs

import (
	"errors"
	"io"
	"io/fs"
)

var (
	errReadOnly = errors.New("file is open for reading only")
	errNegative = errors.New("negative size or offset")
)

// memFile is an open file of a Mem. A file that was removed or renamed stays
// usable through it.
type memFile struct {
	disk     *Mem
	node     *memNode
	name     string
	offset   int64
	writable bool
	appends  bool // every Write goes to the end
	closed   bool
}

// enter takes the disk's lock and checks that the file may be used for op. The
// caller unlocks, also after an error.
func (f *memFile) enter(op string, writing bool) error {
	f.disk.mu.Lock()
	if f.closed {
		return pathError(op, f.name, fs.ErrClosed)
	}
	if writing && !f.writable {
		return pathError(op, f.name, errReadOnly)
	}
	return nil
}

func (f *memFile) Read(p []byte) (int, error) {
	err := f.enter("read", false)
	defer f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := f.node.readAt(p, f.offset)
	f.offset += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, offset int64) (int, error) {
	err := f.enter("read", false)
	defer f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if offset < 0 {
		return 0, pathError("read", f.name, errNegative)
	}
	return f.node.readAt(p, offset)
}

func (f *memFile) Write(p []byte) (int, error) {
	err := f.enter("write", true)
	defer f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if f.appends {
		f.offset = f.node.size
	}
	n, err := f.put(p, f.offset)
	f.offset += int64(n)
	return n, err
}

func (f *memFile) WriteAt(p []byte, offset int64) (int, error) {
	err := f.enter("write", true)
	defer f.disk.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if offset < 0 {
		return 0, pathError("write", f.name, errNegative)
	}
	return f.put(p, offset)
}

// put writes as much of p as fits on the disk.
func (f *memFile) put(p []byte, offset int64) (int, error) {
	fit := f.disk.grow(f.node, offset+int64(len(p))) - offset
	fit = max(min(fit, int64(len(p))), 0)
	f.node.writeAt(p[:fit], offset)
	if fit < int64(len(p)) {
		return int(fit), pathError("write", f.name, ErrNoSpace)
	}
	return len(p), nil
}

func (f *memFile) Close() error {
	err := f.enter("close", false)
	defer f.disk.mu.Unlock()
	f.closed = true
	return err
}

func (f *memFile) Size() (int64, error) {
	err := f.enter("stat", false)
	defer f.disk.mu.Unlock()
	return f.node.size, err
}

func (f *memFile) Sync() error {
	err := f.enter("sync", false)
	defer f.disk.mu.Unlock()
	if err != nil {
		return err
	}
	clear(f.node.unsynced)
	f.node.syncedSize = f.node.size
	return nil
}

// syncFailed implements vfs-V3 for what was written since the last Sync: programs
// can still read it, but no later Sync makes it durable.
func (f *memFile) syncFailed() {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	for index, old := range f.node.unsynced {
		f.node.lost[index] = old
	}
	clear(f.node.unsynced)
}

func (f *memFile) Truncate(size int64) error {
	err := f.enter("truncate", true)
	defer f.disk.mu.Unlock()
	if err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, errNegative)
	}
	f.disk.resize(f.node, size)
	return nil
}

func (f *memFile) Allocate(size int64) error {
	err := f.enter("allocate", true)
	defer f.disk.mu.Unlock()
	if err != nil {
		return err
	}
	if f.disk.grow(f.node, size) < size {
		return pathError("allocate", f.name, ErrNoSpace)
	}
	f.node.size = max(f.node.size, size)
	return nil
}

// grow charges the space that node needs to reach end. It returns how far node
// may grow: end, or less on a full disk.
func (m *Mem) grow(node *memNode, end int64) int64 {
	more := end - node.charge
	if more <= 0 {
		return end
	}
	if free := m.mu.capacity - m.mu.used; m.mu.capacity >= 0 && more > free {
		return node.charge // beyond its current space, all or nothing
	}
	node.charge = end
	m.mu.used += more
	return end
}

// resize cuts or extends node without charging space for the extension.
func (m *Mem) resize(node *memNode, size int64) {
	for index := range node.sectors {
		switch start := index * SectorBytes; {
		case start >= size:
			node.touch(index)
			delete(node.sectors, index)
		case start+SectorBytes > size:
			clear(node.touch(index)[size-start:])
		}
	}
	if size < node.charge {
		m.mu.used -= node.charge - size
		node.charge = size
	}
	node.size = size
}

// touch prepares a sector for writing: it saves the content that a crash would
// restore and returns the bytes to change.
func (n *memNode) touch(index int64) *[SectorBytes]byte {
	sector := n.sectors[index]
	if _, ok := n.unsynced[index]; !ok {
		if old, ok := n.lost[index]; ok {
			n.unsynced[index] = old
			delete(n.lost, index)
		} else {
			n.unsynced[index] = copySector(sector)
		}
	}
	if sector == nil {
		sector = new([SectorBytes]byte)
		n.sectors[index] = sector
	}
	return sector
}

func (n *memNode) writeAt(p []byte, offset int64) {
	for len(p) > 0 {
		sector := n.touch(offset / SectorBytes)
		written := copy(sector[offset%SectorBytes:], p)
		p = p[written:]
		offset += int64(written)
	}
	n.size = max(n.size, offset)
}

func (n *memNode) readAt(p []byte, offset int64) (int, error) {
	total := 0
	for total < len(p) && offset < n.size {
		within := offset % SectorBytes
		count := min(int64(len(p)-total), SectorBytes-within, n.size-offset)
		part := p[total : total+int(count)]
		if sector := n.sectors[offset/SectorBytes]; sector != nil {
			copy(part, sector[within:])
		} else {
			clear(part)
		}
		total += int(count)
		offset += count
	}
	if total < len(p) {
		return total, io.EOF
	}
	return total, nil
}

func copySector(sector *[SectorBytes]byte) *[SectorBytes]byte {
	if sector == nil {
		return nil
	}
	twin := *sector
	return &twin
}
