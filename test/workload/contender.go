package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/check"
	"github.com/conclave-project/conclave/zk"
)

const (
	// roundOperations and roundUnknowns limit the use of a key: checking the order of the
	// answers takes long if there are many, or many that never arrived.
	roundOperations = 80
	roundUnknowns   = 6
)

// A contest is several clients that work on the same keys, one key at a time.
type contest struct {
	mu       sync.Mutex
	started  time.Time
	last     int64 // the last moment that was issued: moments are unique
	round    int
	size     int
	unknowns int
	history  []check.Operation
}

// key returns the key in use now.
func (k *contest) key() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.size++; k.size > roundOperations || k.unknowns >= roundUnknowns {
		k.round++
		k.size, k.unknowns = 0, 0
	}
	return k.round
}

// moment returns the current time, later than all moments before.
func (k *contest) moment() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = max(k.last+1, time.Since(k.started).Nanoseconds())
	return k.last
}

func (k *contest) note(op check.Operation) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if op.Return == check.Never {
		k.unknowns++
	}
	k.history = append(k.history, op)
}

// Contended reports whether some order explains all the answers that the contenders got.
func (l *Load) Contended() error {
	l.contest.mu.Lock()
	defer l.contest.mu.Unlock()
	return check.Linearizable(l.contest.history)
}

// A contender creates, sets, deletes and reads keys at the same time as others.
type contender struct {
	load   *Load
	id     int
	client *client.Client
	found  int32 // version of the key when last seen
}

// run works until the load ends.
func (c *contender) run() {
	for n := 0; c.load.pause(c.load.options.Pause); n++ {
		if c.client != nil && c.client.Err() != nil {
			c.client.Close()
			c.client = nil
		}
		if c.client == nil {
			ctx, cancel := c.load.context()
			// On an error it tries again in the next round.
			c.client, _ = c.load.dial(ctx)
			cancel()
			continue
		}
		c.operate(n)
	}
	if c.client != nil {
		c.client.Close()
	}
}

// turns are the operations of a contender: mostly sets and reads, sometimes a create or
// delete of the znode.
var turns = []zk.Op{zk.OpCreate, zk.OpGetData, zk.OpSetData, zk.OpGetData, zk.OpSetData, zk.OpSetData, zk.OpGetData, zk.OpSetData, zk.OpGetData, zk.OpDelete}

// operate does one operation and records its result.
func (c *contender) operate(n int) {
	ctx, cancel := c.load.context()
	defer cancel()
	key := c.load.contest.key()
	path := c.load.path(fmt.Sprintf("/k%06d", key))
	data := fmt.Appendf(nil, "%d-%d", c.id, n)
	op := check.Operation{Client: c.id, Key: path, Op: turns[(n+3*c.id)%len(turns)], Version: -1, Data: check.Hash(data)}
	if op.Op == zk.OpSetData && n%3 > 0 {
		op.Version = c.found
	}
	op.Call = c.load.contest.moment()
	counts, err := c.send(ctx, &op, path, data)
	if !counts {
		return
	}
	op.Return = c.load.contest.moment()
	var code zk.Code
	switch {
	case err == nil:
	case client.OutcomeOf(err) == client.Unknown:
		op.Return = check.Never
	case errors.As(err, &code) && refusals[code]:
		op.Code = code
	default:
		return // it changed nothing, and the answer says nothing about the key
	}
	c.load.contest.note(op)
}

// refusals are answers that say something about the key.
var refusals = map[zk.Code]bool{zk.ErrNoNode: true, zk.ErrNodeExists: true, zk.ErrBadVersion: true}

// send sends an operation to a server. A read counts only if it went to the server that has
// just synced.
func (c *contender) send(ctx context.Context, op *check.Operation, path string, data []byte) (counts bool, err error) {
	var stat zk.Stat
	switch op.Op {
	case zk.OpCreate:
		_, stat, err = c.client.Create(ctx, path, data, client.CreateOptions{})
	case zk.OpSetData:
		stat, err = c.client.Set(ctx, path, data, op.Version)
	case zk.OpDelete:
		err = c.client.Delete(ctx, path, op.Version)
	case zk.OpGetData:
		if c.client.Sync(ctx, path) != nil {
			return false, nil
		}
		server := c.client.Server()
		var read []byte
		read, stat, err = c.client.Get(ctx, path)
		op.Data = check.Hash(read)
		if server == "" || server != c.client.Server() {
			return false, nil
		}
	}
	if err == nil {
		op.Found, c.found = stat.Version, stat.Version
	}
	return true, err
}
