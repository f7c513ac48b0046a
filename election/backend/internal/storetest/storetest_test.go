package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// memory honours contexts, which a store without I/O need not do.
type memory struct{ *record.Memory }

func (m memory) Read(ctx context.Context, name string) (record.Record, string, error) {
	if err := ctx.Err(); err != nil {
		return record.Record{}, "", err
	}
	return m.Memory.Read(ctx, name)
}

func (m memory) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return m.Memory.Write(ctx, name, r, version)
}

func (m memory) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	return errors.Join(m.Memory.Wait(ctx, name, version, limit), ctx.Err())
}

func TestMemoryStorePasses(t *testing.T) {
	m := memory{record.NewMemory(nil)}
	Run(t, Suite{Open: func(testing.TB) record.Store { return m }, Delete: func(_ testing.TB, name string) { m.Delete(name) }})
}

func TestTortureOfMemory(t *testing.T) {
	m := record.NewMemory(nil)
	Torture{Candidates: 3, Lease: 200 * time.Millisecond, LeadersMin: 3, For: time.Second,
		Open: func(context.Context, string) (election.Backend, func() error, error) {
			b := record.New(m, record.Options{})
			return b, b.Close, nil
		},
		URL:    func(int) string { return "" },
		Faults: map[string]func(*testing.T, *rand.Rand){"nothing": func(*testing.T, *rand.Rand) {}}}.Run(t)
}

func TestTortureFindsTwoLeadersAndOldTokens(t *testing.T) {
	b := &spans{list: []span{{"a", 5, 10, 20}, {"b", 6, 19, 30}, {"c", 6, 30, 40}, {"d", 7, 40, 50}}}
	if wrong := b.judge(); len(wrong) != 2 {
		t.Errorf("found %q", wrong)
	}
}

// TestTortureComparesTokensUnlessTheyMayBeginAgain: tokens are not compared across
// the named faults, but are across all others; two leaders at once are found even
// across the named ones.
func TestTortureComparesTokensUnlessTheyMayBeginAgain(t *testing.T) {
	const lease = 10
	for _, test := range []struct {
		name  string
		list  []span
		wrong int
	}{
		{"from before it and from after it", []span{{"a", 90, 10, 20}, {"b", 5, 50, 60}}, 0},
		{"long after it", []span{{"a", 90, 10, 20}, {"b", 91, 3e9, 4e9}}, 0},
		{"granted before it and seen after it", []span{{"a", 90, 10, 20}, {"b", 91, 32, 35}, {"c", 5, 50, 60}}, 0},
		{"both from before it", []span{{"a", 90, 10, 20}, {"b", 90, 25, 28}, {"c", 5, 50, 60}}, 1},
		{"both from after it", []span{{"a", 90, 10, 20}, {"b", 5, 50, 60}, {"c", 5, 60, 70}}, 1},
		{"at once over it", []span{{"a", 90, 10, 51}, {"b", 5, 50, 60}}, 1},
	} {
		b := &spans{list: test.list, begins: []begin{{30, 31 + lease}}}
		if wrong := b.judge(); len(wrong) != test.wrong {
			t.Errorf("%s: found %q", test.name, wrong)
		}
	}
	none := &spans{list: []span{{"a", 90, 10, 20}, {"b", 5, 50, 60}}}
	if wrong := none.judge(); len(wrong) != 1 {
		t.Errorf("without such a fault: found %q", wrong)
	}
}

func TestOnlyTheLastGrantIsForgotten(t *testing.T) {
	was := marshal(t, record.Record{Holder: "b", Nonce: "n", Token: 8, Incarnation: "i", LeaseMs: 1000, Heartbeat: 7,
		Next:    &record.Next{ID: "c", Nonce: "m", LeaseMs: 1000},
		History: []election.Tenure{{Leader: "a", Token: 4}, {Leader: "b", Token: 8}}})
	var r record.Record
	if err := json.Unmarshal([]byte(WithoutLastGrant(t, was)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Holder != "" || r.Nonce != "" || r.Token != 7 || r.Incarnation != "i" || r.Next == nil || len(r.History) != 1 {
		t.Errorf("%+v", r)
	}
	for _, nothing := range []string{"", `{"token":0}`} {
		if text := WithoutLastGrant(t, nothing); text != nothing {
			t.Errorf("%q became %q", nothing, text)
		}
	}
}

func TestMoreHoldersThanMayActAreFound(t *testing.T) {
	for _, test := range []struct {
		name  string
		list  []held
		wrong int
	}{
		{"one long after another", []held{{"a", true, 0, 1e9}, {"b", true, 3e9, 4e9}}, 0},
		{"three and one after them", []held{{"a", false, 0, 5}, {"b", false, 1, 5}, {"c", false, 2, 5}, {"d", false, 5, 6}}, 0},
		{"four", []held{{"a", false, 0, 5}, {"b", false, 1, 5}, {"c", false, 2, 5}, {"d", false, 4, 6}}, 1},
		{"a writer after a reader", []held{{"a", false, 0, 5}, {"b", true, 5, 6}}, 0},
		{"a writer beside a reader", []held{{"a", false, 0, 5}, {"b", true, 4, 6}}, 1},
		{"a reader beside a writer", []held{{"a", true, 0, 5}, {"b", false, 4, 6}}, 1},
	} {
		if wrong := tooMany(test.list); len(wrong) != test.wrong {
			t.Errorf("%s: %q", test.name, wrong)
		}
	}
}
