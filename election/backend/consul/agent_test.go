package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/clock"
)

// agent is as much of Consul as elections need, in memory: keys, sessions that end after twice their
// TTL, locks, transactions and blocking queries.
type agent struct {
	clock clock.Clock
	// put is called with each key that is written, and with the name of the session that locks it.
	put func(key, session string)
	// asked is called for each request, unless it is nil.
	asked func()

	mu       sync.Mutex
	index    uint64
	pairs    map[string]*api.KVPair
	sessions map[string]*agentSession
	changed  chan struct{}
}

type agentSession struct {
	api.SessionEntry
	ttl   time.Duration
	until clock.Instant
}

func newAgent(c clock.Clock) *agent {
	return &agent{clock: c, put: func(string, string) {}, index: 10, pairs: make(map[string]*api.KVPair), sessions: make(map[string]*agentSession),
		changed: make(chan struct{})}
}

var errAgentConflict = errors.New("refused")

// agentAnswer is the agent's answer to a request.
type agentAnswer struct {
	status int
	index  uint64
	body   any
}

// serve answers a request.
func (a *agent) serve(ctx context.Context, method string, u *url.URL, body []byte) agentAnswer {
	path, query := u.Path, u.Query()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked != nil {
		a.asked()
	}
	a.expire()
	switch key, isKey := strings.CutPrefix(path, "/v1/kv/"); {
	case isKey && method == http.MethodGet:
		return a.get(ctx, key, query)
	case isKey:
		pair := &api.KVPair{Key: key, Value: body, Session: query.Get("acquire")}
		a.index++
		err := a.lock(pair, a.pairs)
		if err != nil && a.sessions[pair.Session] == nil {
			return agentAnswer{status: http.StatusInternalServerError, body: "invalid session"}
		}
		a.tell()
		return agentAnswer{body: err == nil}
	case path == "/v1/txn":
		return a.transact(body)
	}
	return a.session(path, body)
}

func (a *agent) tell() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// session answers requests about sessions.
func (a *agent) session(path string, body []byte) agentAnswer {
	what, id, _ := strings.Cut(strings.TrimPrefix(path, "/v1/session/"), "/")
	found := a.sessions[id]
	switch what {
	case "create":
		var asked struct{ Name, TTL string }
		_ = json.Unmarshal(body, &asked)
		ttl, _ := time.ParseDuration(asked.TTL)
		a.index++
		id = fmt.Sprint("session-", a.index)
		a.sessions[id] = &agentSession{api.SessionEntry{ID: id, Name: asked.Name, TTL: asked.TTL}, ttl, a.clock.Now().Add(2 * ttl)}
		return agentAnswer{body: map[string]string{"ID": id}}
	case "renew":
		if found == nil {
			return agentAnswer{status: http.StatusNotFound}
		}
		found.until = a.clock.Now().Add(2 * found.ttl)
		return agentAnswer{body: []api.SessionEntry{found.SessionEntry}}
	case "destroy":
		a.destroy(id)
		return agentAnswer{body: true}
	}
	all := []api.SessionEntry{}
	for _, s := range a.sessions {
		if what == "list" || s.ID == id {
			all = append(all, s.SessionEntry)
		}
	}
	return agentAnswer{body: all}
}

// destroy ends a session and deletes the keys that it locks.
func (a *agent) destroy(id string) {
	if a.sessions[id] == nil {
		return
	}
	delete(a.sessions, id)
	a.index++
	maps.DeleteFunc(a.pairs, func(_ string, pair *api.KVPair) bool { return pair.Session == id })
	a.tell()
}

func (a *agent) expire() {
	for _, id := range slices.Sorted(maps.Keys(a.sessions)) {
		if a.clock.Now() > a.sessions[id].until {
			a.destroy(id)
		}
	}
}

// extend restarts all sessions, as a new leader of Consul does.
func (a *agent) extend() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.expire()
	for _, s := range a.sessions {
		s.until = a.clock.Now().Add(2 * s.ttl)
	}
}

// get reads a key, or lists the keys below it. If the query names an index, get waits until that
// has changed.
func (a *agent) get(ctx context.Context, key string, query url.Values) agentAnswer {
	after, _ := strconv.ParseUint(query.Get("index"), 10, 64)
	wait, _ := time.ParseDuration(query.Get("wait"))
	until := time.NewTimer(wait)
	defer until.Stop()
	for {
		answer := a.read(key, query.Has("keys"))
		if after == 0 || answer.index > after {
			return answer
		}
		next := time.Hour // when the next session ends by itself
		for _, s := range a.sessions {
			next = min(next, max(0, s.until.Sub(a.clock.Now()))*11/10+time.Millisecond)
		}
		ends, changed := time.NewTimer(next), a.changed
		a.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-ends.C:
		case <-until.C:
			over = true
		case <-ctx.Done():
			over = true
		}
		ends.Stop()
		a.mu.Lock()
		a.expire()
		if over {
			return a.read(key, query.Has("keys"))
		}
	}
}

func (a *agent) read(key string, list bool) agentAnswer {
	if pair := a.pairs[key]; pair != nil && !list {
		return agentAnswer{index: pair.ModifyIndex, body: []*api.KVPair{pair}}
	}
	segments := []string{}
	for _, found := range slices.Sorted(maps.Keys(a.pairs)) {
		if rest, below := strings.CutPrefix(found, key); below && list {
			if cut := strings.IndexByte(rest, '/'); cut >= 0 {
				rest = rest[:cut+1]
			}
			segments = append(segments, key+rest)
		}
	}
	if segments = slices.Compact(segments); len(segments) > 0 {
		return agentAnswer{index: a.index, body: segments} // of all keys: more than needed
	}
	return agentAnswer{status: http.StatusNotFound, index: a.index}
}

// transact carries out all operations, or none.
func (a *agent) transact(body []byte) agentAnswer {
	var ops api.TxnOps
	if err := json.Unmarshal(body, &ops); err != nil {
		return agentAnswer{status: http.StatusBadRequest, body: err.Error()}
	}
	a.index++
	pairs, answer, changes := maps.Clone(a.pairs), api.TxnResponse{}, false
	for i, op := range ops {
		results, changed, err := a.operate(op.KV, pairs)
		if err != nil {
			a.index--
			answer = api.TxnResponse{Errors: api.TxnErrors{{OpIndex: i, What: err.Error()}}}
			return agentAnswer{status: http.StatusConflict, body: answer}
		}
		changes = changes || changed
		for _, pair := range results {
			answer.Results = append(answer.Results, &api.TxnResult{KV: pair})
		}
	}
	if changes {
		a.pairs = pairs
		a.tell()
	} else {
		a.index--
	}
	return agentAnswer{body: answer}
}

// operate carries out one operation on a copy.
func (a *agent) operate(op *api.KVTxnOp, pairs map[string]*api.KVPair) (results []*api.KVPair, changed bool, err error) {
	found := pairs[op.Key]
	set := &api.KVPair{Key: op.Key, Value: op.Value, Flags: op.Flags, Session: op.Session}
	switch op.Verb {
	case api.KVGetOrEmpty:
		if found == nil {
			found = &api.KVPair{Key: op.Key}
		}
		return []*api.KVPair{found}, false, nil
	case api.KVGetTree:
		for _, key := range slices.Sorted(maps.Keys(pairs)) {
			if strings.HasPrefix(key, op.Key) {
				results = append(results, pairs[key])
			}
		}
		return results, false, nil
	case api.KVCheckNotExists:
		if found != nil {
			return nil, false, errAgentConflict
		}
		return nil, false, nil
	case api.KVCheckSession, api.KVCheckIndex:
		if found == nil || op.Verb == api.KVCheckSession && found.Session != op.Session ||
			op.Verb == api.KVCheckIndex && found.ModifyIndex != op.Index {
			return nil, false, errAgentConflict
		}
		return []*api.KVPair{found}, false, nil
	case api.KVDelete:
		delete(pairs, op.Key)
		return nil, true, nil
	case api.KVLock:
		err = a.lock(set, pairs)
	case api.KVUnlock:
		if found == nil || found.Session != op.Session {
			return nil, false, errAgentConflict
		}
		set.Session, set.CreateIndex, set.LockIndex = "", found.CreateIndex, found.LockIndex
		err = a.set(set, pairs)
	case api.KVCAS:
		if found == nil && op.Index != 0 || found != nil && found.ModifyIndex != op.Index {
			return nil, false, errAgentConflict
		}
		if set.CreateIndex, set.Session = a.index, ""; found != nil {
			set.CreateIndex, set.Session, set.LockIndex = found.CreateIndex, found.Session, found.LockIndex
		}
		err = a.set(set, pairs)
	}
	return []*api.KVPair{set}, true, err
}

// lock puts a pair for its session.
func (a *agent) lock(pair *api.KVPair, pairs map[string]*api.KVPair) error {
	found, session := pairs[pair.Key], a.sessions[pair.Session]
	switch {
	case session == nil, found != nil && found.Session != "" && found.Session != pair.Session:
		return errAgentConflict
	case found == nil:
		pair.CreateIndex, pair.LockIndex = a.index, 1
	case found.Session == pair.Session:
		pair.CreateIndex, pair.LockIndex = found.CreateIndex, found.LockIndex
	default:
		pair.CreateIndex, pair.LockIndex = found.CreateIndex, found.LockIndex+1
	}
	a.put(pair.Key, session.Name)
	return a.set(pair, pairs)
}

func (a *agent) set(pair *api.KVPair, pairs map[string]*api.KVPair) error {
	pair.ModifyIndex = a.index
	pairs[pair.Key] = pair
	return nil
}

// response returns the answer as the client reads it.
func (a agentAnswer) response(r *http.Request) *http.Response {
	text, _ := json.Marshal(a.body)
	response := &http.Response{StatusCode: max(a.status, http.StatusOK), Header: http.Header{}, Request: r,
		Body: io.NopCloser(bytes.NewReader(text))}
	response.Header.Set("X-Consul-Index", fmt.Sprint(a.index))
	return response
}
