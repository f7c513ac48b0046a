package workload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// A writer creates znodes one after the other, counts in a register, deletes old znodes,
// and has an ephemeral znode for each of its sessions.
type writer struct {
	load   *Load
	id     int
	client *client.Client

	acknowledged, unknown, lost atomic.Int64

	counted atomic.Int64 // last acknowledged count: see reader

	mu       sync.Mutex
	times    []time.Time         // times of all acknowledgements
	sessions map[string]znodeEnd // by path of the ephemeral

	created []string // paths of existing znodes, oldest first
	count   int64    // in the register, as far as known
	version int32    // of the register, as far as known
	newest  zk.Zxid  // newest zxid of an acknowledged write in this session
}

// A znodeEnd is the expected state of an ephemeral znode.
type znodeEnd int

const (
	standing znodeEnd = iota
	gone
	doubtful
)

// session returns the current client; only the writer itself replaces it.
func (w *writer) session() *client.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.client
}

// open begins a session and creates its ephemeral.
func (w *writer) open(ctx context.Context) error {
	c, err := w.load.dial(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.client, w.newest = c, 0
	w.mu.Unlock()
	path := w.load.path(fmt.Sprintf("/sessions/w%d-%x", w.id, int64(c.SessionID())))
	_, _, err = c.Create(ctx, path, nil, client.CreateOptions{Mode: zk.Ephemeral})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sessions == nil {
		w.sessions = map[string]znodeEnd{}
	}
	if err != nil && client.OutcomeOf(err) == client.NotApplied {
		c.Close()
		return err
	}
	if err != nil {
		w.sessions[path] = doubtful
		return nil
	}
	w.sessions[path] = standing
	return nil
}

// run works until the load ends.
func (w *writer) run() {
	for n := int64(1); w.load.pause(w.load.options.Pause); n++ {
		var err error
		switch {
		case w.load.options.Kept > 0 && len(w.created) > w.load.options.Kept:
			err = w.delete()
		case n%2 == 0:
			err = w.set()
		default:
			err = w.create(n)
		}
		if err != nil && w.client.Err() != nil && !w.reopen() {
			return
		}
	}
}

// reopen replaces a lost session; it returns false if the load ends first.
func (w *writer) reopen() bool {
	w.lost.Add(1)
	w.mu.Lock()
	for path, end := range w.sessions {
		if end == standing {
			w.sessions[path] = gone
		}
	}
	w.mu.Unlock()
	w.client.Close()
	for {
		ctx, cancel := w.load.context()
		err := w.open(ctx)
		cancel()
		if err == nil {
			return true
		}
		if !w.load.pause(50 * time.Millisecond) {
			return false
		}
	}
}

func (w *writer) create(n int64) error {
	ctx, cancel := w.load.context()
	defer cancel()
	path := w.load.path(fmt.Sprintf("/w%d/%08d", w.id, n))
	_, stat, err := w.client.Create(ctx, path, []byte(path), client.CreateOptions{})
	switch client.OutcomeOf(err) {
	case client.Applied:
		w.created = append(w.created, path)
		w.load.Ledger.Created(path, stat.Czxid)
		w.ack(stat.Czxid)
	case client.Unknown:
		w.unknown.Add(1)
		w.load.Ledger.Unknown(path)
	}
	return err
}

func (w *writer) delete() error {
	ctx, cancel := w.load.context()
	defer cancel()
	path := w.created[0]
	err := w.client.Delete(ctx, path, -1)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		w.load.Ledger.Breach("writer %d deletes %s, which was acknowledged and is lost", w.id, path)
		w.created = w.created[1:]
	case client.OutcomeOf(err) == client.Applied:
		w.load.Ledger.Deleted(path)
		w.created = w.created[1:]
		w.ack(0)
	case client.OutcomeOf(err) == client.Unknown:
		w.unknown.Add(1)
		w.load.Ledger.Unknown(path)
		w.created = w.created[1:]
	}
	return err
}

// set increments the count. Each set names the version that it is based on, so a late
// request of an earlier session cannot take effect in between.
func (w *writer) set() error {
	ctx, cancel := w.load.context()
	defer cancel()
	path := w.load.register(w.id)
	next := w.count + 1
	stat, err := w.client.Set(ctx, path, []byte(strconv.FormatInt(next, 10)), w.version)
	switch {
	case errors.Is(err, zk.ErrBadVersion):
		return w.learn(ctx)
	case client.OutcomeOf(err) == client.Applied:
		if stat.Version != w.version+1 {
			w.load.Ledger.Breach("%s was set on version %d and has version %d", path, w.version, stat.Version)
		}
		w.count, w.version = next, stat.Version
		w.counted.Store(next)
		w.load.Ledger.Wrote(path, stat.Mzxid)
		w.ack(stat.Mzxid)
	case client.OutcomeOf(err) == client.Unknown:
		w.unknown.Add(1)
	}
	return err
}

// learn reads the register after a set of unknown outcome. The register can be ahead only
// by this set.
func (w *writer) learn(ctx context.Context) error {
	if err := w.client.Sync(ctx, w.load.register(w.id)); err != nil {
		return err
	}
	data, stat, err := w.client.Get(ctx, w.load.register(w.id))
	if err != nil {
		return err
	}
	count, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil || count < w.count || int64(stat.Version) != count {
		w.load.Ledger.Breach("%s holds %q at version %d, acknowledged was %d", w.load.register(w.id), data, stat.Version, w.count)
	}
	w.count, w.version = count, stat.Version
	return nil
}

// ack records an acknowledgement.
func (w *writer) ack(zxid zk.Zxid) {
	if zxid != 0 && zxid <= w.newest {
		w.load.Ledger.Breach("writer %d was given %v after %v in one session", w.id, zxid, w.newest)
	}
	w.newest = max(w.newest, zxid)
	w.acknowledged.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.times = append(w.times, time.Now())
}
