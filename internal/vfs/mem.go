package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"sync"
)

// SectorBytes is the unit that a crash keeps or loses as a whole.
const SectorBytes = 512

// Mem is a disk in memory with exact crash semantics (vfs-V1 to vfs-V4). It may be used
// from several goroutines. The zero value is not ready; use NewMem.
type Mem struct {
	mu struct {
		sync.Mutex
		root     *memNode
		locked   map[string]bool
		capacity int64 // bytes, negative for no limit
		used     int64 // bytes charged to files, see memNode.charge
	}
}

// memNode is a file or a directory.
type memNode struct {
	// entries of a directory as programs see them, and the list of changes
	// that SyncDir has not yet made durable. Nil for a file.
	entries map[string]*memNode
	durable map[string]*memNode
	changes []dirChange

	// content of a file: sectors that were never written are absent and zero.
	sectors map[int64]*[SectorBytes]byte
	size    int64
	charge  int64 // bytes of space it takes: the end of what was written or allocated

	// the state after a crash: the old content of each sector written since the
	// last Sync (nil = zero), and the size at that Sync. lost are the sectors
	// whose Sync failed: no later Sync makes them durable (vfs-V3).
	unsynced   map[int64]*[SectorBytes]byte
	lost       map[int64]*[SectorBytes]byte
	syncedSize int64
}

// dirChange is one unsynced change of a directory: after it, source is gone
// (when not empty) and target is node (when not empty).
type dirChange struct {
	source, target string
	node           *memNode
}

// NewMem returns an empty disk without a limit.
func NewMem() *Mem {
	m := &Mem{}
	m.mu.root = newMemDir()
	m.mu.locked = map[string]bool{}
	m.mu.capacity = -1
	return m
}

func newMemDir() *memNode {
	return &memNode{entries: map[string]*memNode{}, durable: map[string]*memNode{}}
}

func newMemFile() *memNode {
	return &memNode{
		sectors:  map[int64]*[SectorBytes]byte{},
		unsynced: map[int64]*[SectorBytes]byte{},
		lost:     map[int64]*[SectorBytes]byte{},
	}
}

// SetCapacity limits the bytes that files may take; negative lifts the limit.
// It may be below the space in use: then every growth fails with ErrNoSpace.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.capacity = bytes
}

// Used returns the space that files take, in bytes.
func (m *Mem) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.used
}

// FlipByte inverts the bits of mask in one byte of a file, both on the disk and
// for readers, as silent corruption does.
func (m *Mem) FlipByte(name string, offset int64, mask byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("flip", name)
	if err != nil {
		return err
	}
	if node.entries != nil || offset < 0 || offset >= node.size {
		return pathError("flip", name, fmt.Errorf("no byte at offset %d", offset))
	}
	sector := node.sectors[offset/SectorBytes]
	if sector == nil {
		sector = new([SectorBytes]byte)
		node.sectors[offset/SectorBytes] = sector
	}
	sector[offset%SectorBytes] ^= mask
	return nil
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func splitName(name string) []string {
	clean := filepath.ToSlash(filepath.Clean(name))
	return strings.FieldsFunc(clean, func(r rune) bool { return r == '/' || r == '.' && clean == "." })
}

// find walks to name. The caller holds mu.
func (m *Mem) find(op, name string) (*memNode, error) {
	node := m.mu.root
	for _, part := range splitName(name) {
		if node.entries == nil {
			return nil, pathError(op, name, errors.New("not a directory"))
		}
		node = node.entries[part]
		if node == nil {
			return nil, pathError(op, name, fs.ErrNotExist)
		}
	}
	return node, nil
}

// parent finds the directory that name is in, and its last part.
func (m *Mem) parent(op, name string) (*memNode, string, error) {
	dir, err := m.find(op, filepath.Dir(name))
	if err != nil {
		return nil, "", pathError(op, name, fs.ErrNotExist)
	}
	if dir.entries == nil {
		return nil, "", pathError(op, name, errors.New("not a directory"))
	}
	return dir, filepath.Base(name), nil
}

func (d *memNode) change(c dirChange) {
	c.apply(d.entries)
	d.changes = append(d.changes, c)
}

func (c dirChange) apply(entries map[string]*memNode) {
	if c.source != "" {
		delete(entries, c.source)
	}
	if c.target != "" {
		entries[c.target] = c.node
	}
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.open(name, true) }

func (m *Mem) open(name string, writable bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	if node.entries != nil {
		return nil, pathError("open", name, errors.New("is a directory"))
	}
	return &memFile{disk: m, node: node, name: name, writable: writable}, nil
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("create", name)
	if err != nil {
		return nil, err
	}
	node := dir.entries[base]
	switch {
	case node == nil:
		node = newMemFile()
		dir.change(dirChange{target: base, node: node})
	case node.entries != nil:
		return nil, pathError("create", name, errors.New("is a directory"))
	default:
		m.resize(node, 0)
	}
	return &memFile{disk: m, node: node, name: name, writable: true}, nil
}

// OpenAppend implements FS.
func (m *Mem) OpenAppend(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("open", name)
	if err != nil {
		return nil, err
	}
	node := dir.entries[base]
	switch {
	case node == nil:
		node = newMemFile()
		dir.change(dirChange{target: base, node: node})
	case node.entries != nil:
		return nil, pathError("open", name, errors.New("is a directory"))
	}
	return &memFile{disk: m, node: node, name: name, writable: true, appends: true}, nil
}

// Rename implements FS.
func (m *Mem) Rename(source, target string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, from, err := m.parent("rename", source)
	if err != nil {
		return err
	}
	targetDir, to, err := m.parent("rename", target)
	if err != nil {
		return err
	}
	node := dir.entries[from]
	if node == nil {
		return pathError("rename", source, fs.ErrNotExist)
	}
	if dir != targetDir {
		return pathError("rename", target, errors.New("in another directory"))
	}
	if old := dir.entries[to]; old != nil && old != node {
		m.mu.used -= old.charge
	}
	dir.change(dirChange{source: from, target: to, node: node})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	node := dir.entries[base]
	if node == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if len(node.entries) > 0 {
		return pathError("remove", name, errors.New("directory not empty"))
	}
	m.mu.used -= node.charge
	dir.change(dirChange{source: base})
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("list", dir)
	if err != nil {
		return nil, err
	}
	if node.entries == nil {
		return nil, pathError("list", dir, errors.New("not a directory"))
	}
	names := make([]string, 0, len(node.entries))
	for name := range node.entries {
		names = append(names, name)
	}
	sort.Strings(names)
	return names, nil
}

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("stat", name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: node.size, Dir: node.entries != nil}, nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.mu.root
	for _, part := range splitName(dir) {
		next := node.entries[part]
		if next == nil {
			next = newMemDir()
			node.change(dirChange{target: part, node: next})
		}
		if next.entries == nil {
			return pathError("mkdir", dir, errors.New("not a directory"))
		}
		node = next
	}
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.find("syncdir", dir)
	if err != nil {
		return err
	}
	if node.entries == nil {
		return pathError("syncdir", dir, errors.New("not a directory"))
	}
	for _, c := range node.changes {
		c.apply(node.durable)
	}
	node.changes = nil
	return nil
}

// Lock implements FS. A crash frees every lock: CrashClone has none.
func (m *Mem) Lock(dir string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find("lock", dir); err != nil {
		return nil, err
	}
	key := strings.Join(splitName(dir), "/")
	if m.mu.locked[key] {
		return nil, pathError("lock", dir, ErrLocked)
	}
	m.mu.locked[key] = true
	return &memLock{disk: m, key: key}, nil
}

type memLock struct {
	disk *Mem
	key  string
}

func (l *memLock) Close() error {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	delete(l.disk.mu.locked, l.key)
	return nil
}
