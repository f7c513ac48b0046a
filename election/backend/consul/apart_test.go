package consul

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/queue"
)

// below is a server that has some keys, and answers read transactions.
type below []*api.KVPair

func (b below) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := any(b.segments(strings.TrimPrefix(r.URL.Path, "/v1/kv/")))
	if r.URL.Path == "/v1/txn" {
		var ops api.TxnOps
		if err := json.NewDecoder(r.Body).Decode(&ops); err != nil {
			return nil, err
		}
		answer = b.read(ops)
	}
	text, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
		Body: io.NopCloser(bytes.NewReader(text))}, err
}

func (b below) read(ops api.TxnOps) (answer api.TxnResponse) {
	for _, op := range ops {
		if op.KV.Verb == api.KVGetOrEmpty {
			answer.Results = append(answer.Results, &api.TxnResult{KV: &api.KVPair{Key: op.KV.Key}})
		}
		for _, pair := range b {
			if op.KV.Verb == api.KVGetTree && strings.HasPrefix(pair.Key, op.KV.Key) {
				answer.Results = append(answer.Results, &api.TxnResult{KV: pair})
			}
		}
	}
	return answer
}

// segments returns the first segments below a root, in order.
func (b below) segments(root string) (found []string) {
	for _, pair := range b {
		rest, within := strings.CutPrefix(pair.Key, root)
		if first, _, more := strings.Cut(rest, "/"); within && more {
			found = append(found, root+first+"/")
		} else if within {
			found = append(found, pair.Key)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestLocksOfOtherElectionsStandInNoQueue: the names of other elections may put their
// keys below those of an election's waiters, also for a program with another prefix.
func TestLocksOfOtherElectionsStandInNoQueue(t *testing.T) {
	claim := election.Claim{Election: "jobs", ID: "a", Nonce: strings.Repeat("a", 32)}
	own := &api.KVPair{Key: keys{}.waiter(claim), Value: queue.Encode(waiter{ID: "a"}), Session: "of a", CreateIndex: 9, ModifyIndex: 9}
	outranks := &api.KVPair{Key: fmt.Sprintf("%s0500/%s", keys{}.waiters("jobs"), strings.Repeat("b", 32)),
		Value: queue.Encode(waiter{ID: "b"}), Session: "of b", CreateIndex: 12, ModifyIndex: 12}
	for _, lock := range []string{
		keys{}.lock("conclave/elections"),
		keys{}.lock("conclave/elections/jobs/line"),
		keys{}.lock("conclave/elections/jobs/line/0000"),
		keys{}.lock("conclave/elections/jobs/line/zzzz"),
		keys{}.lock("conclave/elections/jobs/line/0000/" + claim.Nonce),
		keys{"conclave/"}.lock("elections/jobs/line/00001"),
	} {
		strange := &api.KVPair{Key: lock, Value: newHolder("x"), Session: "of x", CreateIndex: 5, ModifyIndex: 5}
		client, err := api.NewClient(&api.Config{Address: "127.0.0.1:1", HttpClient: &http.Client{Transport: below{own, outranks, strange}}})
		if err != nil {
			t.Fatal(err)
		}
		store := newStore(client, Options{})
		e := store.Entry(t.Context(), claim).(*entry)
		session := "of a"
		e.session.Store(&session)
		if place, err := e.Place(t.Context()); err != nil || place.Standing != queue.Head {
			t.Errorf("beside %s the first waiter stands at %v, %v", lock, place.Standing, err)
		}
		if sight, err := e.sight(t.Context(), "jobs"); err != nil || len(sight.Waiting) != 2 {
			t.Errorf("beside %s an observer sees %v, %v", lock, sight.Waiting, err)
		}
		if rival := e.rival(t.Context()); rival != "b" {
			t.Errorf("beside %s the leader is outranked by %q", lock, rival)
		}
		if names, err := store.Names(t.Context()); err != nil || !slices.Equal(names, []string{"jobs"}) {
			t.Errorf("beside %s there are the elections %q, %v", lock, names, err)
		}
	}
}
