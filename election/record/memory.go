package record

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/election"
)

// Memory is a Store in memory: the simplest correct one, for tests of this package and of
// programs that elect.
type Memory struct {
	clock clock.Clock

	mu      sync.Mutex
	records map[string]Record
	version map[string]uint64
	last    uint64 // last version given out; none is used twice
	changed chan struct{}
}

// NewMemory returns an empty store that waits by the given clock; nil is that of this machine.
func NewMemory(c clock.Clock) *Memory {
	if c == nil {
		c = clock.System()
	}
	return &Memory{clock: c, records: make(map[string]Record), version: make(map[string]uint64),
		changed: make(chan struct{})}
}

// Traits names the store.
func (m *Memory) Traits() election.Traits {
	return election.Traits{Name: "memory", LeaseMin: 10 * time.Millisecond,
		Guarantees: election.Guarantees{Failover: "is gone with its process", Renewal: "one write in memory",
			Waiting: "nothing while the holder renews", Notice: "watch"}}
}

// Watches reports true: Wait is told of changes.
func (m *Memory) Watches() bool { return true }

// Read returns the record.
func (m *Memory) Read(_ context.Context, name string) (Record, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[name], m.versionOf(name), nil
}

func (m *Memory) versionOf(name string) string {
	if v := m.version[name]; v != 0 {
		return strconv.FormatUint(v, 10)
	}
	return ""
}

// Write compares and sets.
func (m *Memory) Write(_ context.Context, name string, record Record, version string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.versionOf(name) != version {
		return "", ErrConflict
	}
	m.set(name, record)
	return m.versionOf(name), nil
}

func (m *Memory) set(name string, record Record) {
	m.last++
	m.records[name], m.version[name] = record, m.last
	close(m.changed)
	m.changed = make(chan struct{})
}

// Delete deletes a record, as an operator would.
func (m *Memory) Delete(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(name, Record{})
	delete(m.records, name)
	delete(m.version, name)
}

// Wait returns when the record has another version, or after the limit.
func (m *Memory) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	_, err := m.WaitTold(ctx, name, version, limit)
	return err
}

// WaitTold is Wait that also returns the record.
func (m *Memory) WaitTold(ctx context.Context, name, version string, limit time.Duration) (News, error) {
	timer := m.clock.Timer(m.clock.Now().Add(limit))
	defer timer.Stop()
	for {
		m.mu.Lock()
		now, changed := News{m.records[name], m.versionOf(name)}, m.changed
		m.mu.Unlock()
		if now.Version != version {
			return now, nil
		}
		select {
		case <-changed:
		case <-timer.C():
			return News{}, nil
		case <-ctx.Done():
			return News{}, context.Cause(ctx)
		}
	}
}

// Names returns the names of all records.
func (m *Memory) Names(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.records)), nil
}
