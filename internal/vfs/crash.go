package vfs

import (
	"math/rand"
	"sort"
)

// CrashClone returns the disk as a machine finds it after a power loss at this
// moment. All synced data is there. Of the rest, every written sector, every
// change of a file's length and every change of a directory is kept with a
// probability of keepPercent, drawn from seed: 0 keeps nothing, 100 everything,
// and values in between tear writes. The original is not changed.
func (m *Mem) CrashClone(keepPercent int, seed int64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := crash{percent: keepPercent, random: rand.New(rand.NewSource(seed)), done: map[*memNode]*memNode{}}
	twin := NewMem()
	twin.mu.root = c.node(m.mu.root)
	twin.mu.capacity = m.mu.capacity
	for _, node := range c.done {
		twin.mu.used += node.charge
	}
	return twin
}

// KillClone returns the disk as the next process finds it if this process is
// killed at this moment but the machine keeps running: everything written is
// there, and nothing more of it is durable than before. Locks are free.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	twin := NewMem()
	twin.mu.root = killed(m.mu.root, map[*memNode]*memNode{})
	twin.mu.capacity, twin.mu.used = m.mu.capacity, m.mu.used
	return twin
}

func killed(node *memNode, done map[*memNode]*memNode) *memNode {
	if node == nil || done[node] != nil {
		return done[node]
	}
	if node.entries == nil {
		twin := newMemFile()
		done[node] = twin
		twin.size, twin.charge, twin.syncedSize = node.size, node.charge, node.syncedSize
		copySectors(twin.sectors, node.sectors)
		copySectors(twin.unsynced, node.unsynced)
		copySectors(twin.lost, node.lost)
		return twin
	}
	twin := newMemDir()
	done[node] = twin
	for name, child := range node.entries {
		twin.entries[name] = killed(child, done)
	}
	for name, child := range node.durable {
		twin.durable[name] = killed(child, done)
	}
	for _, c := range node.changes {
		twin.changes = append(twin.changes, dirChange{source: c.source, target: c.target, node: killed(c.node, done)})
	}
	return twin
}

func copySectors(target, source map[int64]*[SectorBytes]byte) {
	for index, sector := range source {
		target[index] = copySector(sector)
	}
}

// crash is one CrashClone's walk over the tree. It visits files in a fixed
// order, so a seed gives the same disk every time.
type crash struct {
	percent int
	random  *rand.Rand
	done    map[*memNode]*memNode
}

func (c *crash) keep() bool { return c.random.Intn(100) < c.percent }

func (c *crash) node(node *memNode) *memNode {
	if twin := c.done[node]; twin != nil {
		return twin
	}
	if node.entries == nil {
		twin := c.file(node)
		c.done[node] = twin
		return twin
	}
	twin := newMemDir()
	c.done[node] = twin
	kept := map[string]*memNode{}
	for name, child := range node.durable {
		kept[name] = child
	}
	for _, change := range node.changes {
		if c.keep() {
			change.apply(kept)
		}
	}
	for _, name := range sortedNames(kept) {
		child := c.node(kept[name])
		twin.entries[name] = child
		twin.durable[name] = child
	}
	return twin
}

func (c *crash) file(node *memNode) *memNode {
	twin := newMemFile()
	for index, sector := range node.sectors {
		twin.sectors[index] = copySector(sector)
	}
	revert := func(index int64, old *[SectorBytes]byte) {
		if old == nil {
			delete(twin.sectors, index)
		} else {
			twin.sectors[index] = copySector(old)
		}
	}
	for index, old := range node.lost {
		revert(index, old)
	}
	for _, index := range sortedSectors(node.unsynced) {
		if !c.keep() {
			revert(index, node.unsynced[index])
		}
	}
	twin.size = node.size
	if node.size != node.syncedSize && !c.keep() {
		twin.size = node.syncedSize
	}
	for index, sector := range twin.sectors {
		switch start := index * SectorBytes; {
		case start >= twin.size:
			delete(twin.sectors, index)
		case start+SectorBytes > twin.size:
			clear(sector[twin.size-start:])
		}
	}
	twin.syncedSize = twin.size
	twin.charge = twin.size
	return twin
}

func sortedNames(entries map[string]*memNode) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

func sortedSectors(sectors map[int64]*[SectorBytes]byte) []int64 {
	indexes := make([]int64, 0, len(sectors))
	for index := range sectors {
		indexes = append(indexes, index)
	}
	sort.Slice(indexes, func(i, j int) bool { return indexes[i] < indexes[j] })
	return indexes
}
