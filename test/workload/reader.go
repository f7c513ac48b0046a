package workload

import (
	"strconv"
	"sync"

	"github.com/conclave-project/conclave/client"
)

// A reader reads the writers' registers after a sync.
type reader struct {
	load   *Load
	id     int
	client *client.Client
	seen   map[int]int64 // last count seen in this session, by writer

	mu     sync.Mutex
	public *client.Client // the same as client, for other goroutines
}

// session returns the current client, nil if there is none.
func (r *reader) session() *client.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.public
}

func (r *reader) use(c *client.Client) {
	r.client = c
	r.seen = map[int]int64{}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.public = c
}

// run works until the load ends.
func (r *reader) run() {
	for n := r.id; r.load.pause(r.load.options.Pause); n++ {
		if r.client != nil && r.client.Err() != nil {
			r.client.Close()
			r.use(nil)
		}
		if r.client == nil {
			ctx, cancel := r.load.context()
			if c, err := r.load.dial(ctx); err == nil { // otherwise try again in the next round
				r.use(c)
			}
			cancel()
			continue
		}
		r.read(n % len(r.load.writers))
	}
	if r.client != nil {
		r.client.Close()
	}
}

// read compares one register with the count that was acknowledged before the sync.
func (r *reader) read(writer int) {
	ctx, cancel := r.load.context()
	defer cancel()
	path := r.load.register(writer)
	before := r.load.writers[writer].counted.Load()
	if r.client.Sync(ctx, path) != nil {
		return
	}
	server := r.client.Server()
	data, _, err := r.client.Get(ctx, path)
	if err != nil {
		return
	}
	count, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		r.load.Ledger.Breach("%s holds %q", path, data)
	}
	r.load.reads.Add(1)
	r.saw(writer, sight{count: count, before: before, server: server, same: server == r.client.Server()})
}

// A sight is the result of one read after a sync.
type sight struct {
	count, before int64  // the count shown, and the one acknowledged before the sync was sent
	server        string // the server that has synced
	same          bool   // the same server answered the read
}

// saw checks a read against workload-K3 and workload-K4. For a read that may have gone to a
// different server than its sync, only the order of the session is promised.
func (r *reader) saw(writer int, s sight) {
	path := r.load.register(writer)
	if s.count < s.before && s.same {
		r.load.stale.Add(1)
		if !r.load.options.StaleAllowed {
			r.load.Ledger.Breach("%s held %d at %s after a sync, %d was acknowledged before", path, s.count, s.server, s.before)
		}
	}
	if s.count < r.seen[writer] {
		r.load.Ledger.Breach("%s held %d at %s, the session had seen %d", path, s.count, s.server, r.seen[writer])
	}
	r.seen[writer] = max(r.seen[writer], s.count)
}
