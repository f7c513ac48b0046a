package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/conclave-project/conclave/zk"
)

// Operation is one operation on one key, as a client saw it: requested at Call and answered
// at Return, which are distinct times of one clock. Use only reads that must be recent
// (after a sync, or from a server with linearizable reads).
type Operation struct {
	Client  int
	Key     string
	Op      zk.Op // create, delete, setData, getData; exists, which checks nothing but existence
	Version int32 // of the request, for delete and setData; -1 is any
	Data    uint64
	Code    zk.Code
	Found   int32 // the version that the answer shows
	Call    int64
	Return  int64 // Never if there was no answer
}

// Never is the Return of an operation without an answer: it may take effect at any later
// time, or not at all.
const Never = int64(1) << 62

// register is the state of a key.
type register struct {
	exists  bool
	version int32
	data    uint64
}

// Linearizable looks for an order of the operations on each key that respects real time and
// explains every answer. It takes exponential time in the worst case: use it for some
// hundreds of operations for each key, of which few overlap and a few dozen have no answer.
func Linearizable(history []Operation) error {
	keys := map[string][]porcupine.Operation{}
	for _, op := range history {
		keys[op.Key] = append(keys[op.Key], porcupine.Operation{
			ClientId: op.Client, Input: op, Output: op, Call: op.Call, Return: op.Return,
		})
	}
	model := porcupine.Model{
		Init: func() any { return register{} },
		Step: func(state, input, _ any) (bool, any) { return step(state.(register), input.(Operation)) },
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !porcupine.CheckOperations(model, keys[key]) {
			return broken("linear", "no order explains the %d operations on %s: %s", len(keys[key]), key, list(history, key))
		}
	}
	return nil
}

// listMax is how many operations a Violation shows.
const listMax = 40

// list shows the operations on a key, only the last ones if there are many.
func list(history []Operation, key string) string {
	var lines []string
	for i := range history {
		if history[i].Key == key {
			lines = append(lines, history[i].String())
		}
	}
	return strings.Join(lines[max(0, len(lines)-listMax):], "; ")
}

// step applies an operation to a key; it returns false if its answer does not fit. An
// operation without an answer is assumed to happen: if it did not, that is the same as
// happening last, when nobody sees it.
func step(r register, op Operation) (fits bool, next register) {
	next, code := r.after(op)
	switch {
	case op.Return == Never:
		return true, next
	case code != op.Code:
		return false, r
	case op.Op == zk.OpGetData && code == zk.OK && (op.Data != r.data || op.Found != r.version),
		op.Op == zk.OpSetData && code == zk.OK && op.Found != next.version:
		return false, r
	}
	return true, next
}

// after returns the key after an operation, and the operation's answer.
func (r register) after(op Operation) (register, zk.Code) {
	if op.Op == zk.OpCreate {
		if r.exists {
			return r, zk.ErrNodeExists
		}
		return register{exists: true, data: op.Data}, zk.OK
	}
	if !r.exists {
		return r, zk.ErrNoNode
	}
	if op.Op == zk.OpGetData || op.Op == zk.OpExists {
		return r, zk.OK
	}
	if op.Version != -1 && op.Version != r.version {
		return r, zk.ErrBadVersion
	}
	if op.Op == zk.OpDelete {
		return register{}, zk.OK
	}
	return register{exists: true, version: r.version + 1, data: op.Data}, zk.OK
}

// String returns the operation as a line.
func (o Operation) String() string {
	end := fmt.Sprint(o.Return)
	if o.Return == Never {
		end = "never"
	}
	return fmt.Sprintf("%d to %s, client %d: %v of version %d: %v, found version %d, data %x", o.Call, end, o.Client, o.Op, o.Version, o.Code, o.Found, o.Data&0xffff)
}

// Hash returns the value that stands for data in an Operation.
func Hash(data []byte) uint64 { return hashOf(data) }
