package kubernetes

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// noon is a time with a fraction of a second.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 900_000_000, time.UTC)

func held(heartbeat uint64) record.Record {
	return record.Record{Holder: "web-1", Nonce: "4f1c", Token: 7, LeaseMs: 2500, Heartbeat: heartbeat,
		History: []election.Tenure{{Leader: "web-1", Token: 7, Since: noon}}}
}

// written returns a Lease into which the records were put, one second apart.
func written(t *testing.T, records ...record.Record) *coordination.Lease {
	t.Helper()
	lease := &coordination.Lease{}
	for i, r := range records {
		if err := put(lease, "demo", r, nil, noon.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		lease.ResourceVersion = "1"
	}
	return lease
}

// act changes a Lease as client-go's leaderelection does.
func act(lease *coordination.Lease, identity string, seconds int32, acquired, renewed time.Time, transitions int32) {
	lease.Spec = coordination.LeaseSpec{HolderIdentity: &identity, LeaseDurationSeconds: &seconds,
		AcquireTime: &meta.MicroTime{Time: acquired}, RenewTime: &meta.MicroTime{Time: renewed}, LeaseTransitions: &transitions}
}

func TestHolderIsSeenByClientGo(t *testing.T) {
	spec := written(t, held(1)).Spec
	if got := *spec.HolderIdentity; got != "web-1_4f1c" {
		t.Errorf("holderIdentity %q", got)
	}
	if got := *spec.LeaseDurationSeconds; got != 3 {
		t.Errorf("leaseDurationSeconds %d for 2.5 s", got)
	}
	if !spec.AcquireTime.Time.Equal(noon) || !spec.RenewTime.Time.Equal(noon) || *spec.LeaseTransitions != 0 {
		t.Errorf("%v %v %d", spec.AcquireTime, spec.RenewTime, *spec.LeaseTransitions)
	}
}

func TestRecordComesBack(t *testing.T) {
	want := held(3)
	want.Metadata = []byte("10.0.0.1\xff")
	want.Next = &record.Next{ID: "web-2", Nonce: "aa", Heartbeat: 4, Metadata: []byte("\n")}
	got := recordOf(written(t, held(1), want))
	if got.Heartbeat != 3 || got.Next == nil || !reflect.DeepEqual(got.Next, want.Next) || got.Token != 7 || len(got.History) != 1 ||
		string(got.Metadata) != string(want.Metadata) {
		t.Errorf("%+v", got)
	}
}

func TestReleaseIsAVacancyToClientGo(t *testing.T) {
	released := record.Record{Token: 7, Heartbeat: 2}
	lease := written(t, held(1), released)
	if s := lease.Spec; *s.HolderIdentity != "" || *s.LeaseDurationSeconds != 1 || *s.LeaseTransitions != 0 {
		t.Errorf("%+v", s)
	}
	if got := recordOf(lease); got.Holder != "" || got.Token != 7 {
		t.Errorf("%+v", got)
	}
	next := held(3)
	next.Nonce = "other"
	if lease := written(t, held(1), released, next); *lease.Spec.LeaseTransitions != 1 {
		t.Errorf("transitions %d after another holder", *lease.Spec.LeaseTransitions)
	}
}

// client-go compares the JSON of a record, whose times have whole seconds.
func TestRenewalsDifferForClientGoWhateverTheClock(t *testing.T) {
	lease := written(t, held(1))
	last := lease.Spec.RenewTime.Time
	raw := func() string {
		text, err := json.Marshal(meta.Time{Time: lease.Spec.RenewTime.Time})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	seen := map[string]bool{raw(): true}
	clock := []time.Time{noon, noon.Add(time.Millisecond), noon.Add(-time.Hour), noon.Add(50 * time.Millisecond), noon.Add(time.Hour)}
	for i, now := range clock {
		if err := put(lease, "demo", held(uint64(i+2)), nil, now); err != nil {
			t.Fatal(err)
		}
		if seen[raw()] {
			t.Errorf("renewal at %v: client-go has seen %s before", now, raw())
		}
		seen[raw()] = true
		last = lease.Spec.RenewTime.Time
	}
	if !last.Equal(noon.Add(time.Hour)) {
		t.Errorf("renewed at %v although the clock is ahead", last)
	}
	if !lease.Spec.AcquireTime.Time.Equal(noon) {
		t.Errorf("acquired at %v", lease.Spec.AcquireTime)
	}
}

// What client-go compares must not change, or a dead holder would never expire.
func TestThoseWhoWaitDoNotTouchTheSpec(t *testing.T) {
	waiting := held(1)
	waiting.Next = &record.Next{ID: "web-2", Nonce: "aa", Heartbeat: 1}
	waiting.Touch = 5
	waiting.Request = &election.Request{Token: 7}
	if before, after := markOf(&written(t, held(1)).Spec), markOf(&written(t, held(1), waiting).Spec); before != after {
		t.Errorf("the spec went from %+v to %+v", before, after)
	}
	lease := written(t, held(1), waiting)
	act(lease, "op_1", 15, noon, noon.Add(time.Minute), 1)
	before := markOf(&lease.Spec)
	r := recordOf(lease)
	r.Next.Heartbeat++
	if err := put(lease, "demo", r, nil, noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if after := markOf(&lease.Spec); before != after {
		t.Errorf("the spec of another holder went from %+v to %+v", before, after)
	}
	if got := recordOf(lease); got.Next.Heartbeat != 2 || got.Holder != "op_1" {
		t.Errorf("%+v", got)
	}
}

func TestClientGoHolderCountsAgainstAStaleAnnotation(t *testing.T) {
	before := held(1)
	before.Next = &record.Next{ID: "web-2", Nonce: "aa", Heartbeat: 9, State: record.StateNominated}
	before.Request, before.Wanted, before.Priority = &election.Request{Token: 7}, "web-2", 5
	before.Metadata = []byte("of web-1")
	lease := written(t, before)
	since := noon.Add(20 * time.Second)
	act(lease, "op_1", 15, since, since, 1)
	first := recordOf(lease)
	if first.Holder != "op_1" || first.Nonce == "" || first.LeaseMs != 16_000 || first.Token != 7 || first.Priority != 0 || first.Metadata != nil {
		t.Errorf("%+v", first)
	}
	if first.Request != nil || first.Wanted != "" || first.Next == nil || first.Next.State != "" || first.Next.Heartbeat != 9 {
		t.Errorf("what the old holder was told is told to the new one: %+v %+v", first, first.Next)
	}
	if h := first.History; len(h) != 2 || h[0].Reason != "expired" || !h[0].Until.Equal(since) || h[1].Leader != "op_1" || h[1].Token != 0 {
		t.Errorf("history %+v", first.History)
	}

	act(lease, "op_1", 15, since, since.Add(2*time.Second), 1)
	renewed := recordOf(lease)
	if renewed.Nonce != first.Nonce || renewed.Heartbeat == first.Heartbeat {
		t.Errorf("a renewal is %q %d after %q %d", renewed.Nonce, renewed.Heartbeat, first.Nonce, first.Heartbeat)
	}
	if err := put(lease, "demo", renewed, nil, since); err != nil {
		t.Fatal(err)
	}
	if got := recordOf(lease); len(got.History) != 2 || got.Heartbeat != renewed.Heartbeat {
		t.Errorf("%+v", got)
	}

	act(lease, "", 1, since.Add(3*time.Second), since.Add(3*time.Second), 1)
	released := recordOf(lease)
	if released.Holder != "" || released.Nonce != "" || released.Token != 7 {
		t.Errorf("%+v", released)
	}
	if h := released.History; len(h) != 2 || h[1].Reason != "resigned" || !h[1].Until.Equal(since.Add(3*time.Second)) {
		t.Errorf("history %+v", released.History)
	}

	act(lease, "op_2", 15, since.Add(9*time.Second), since.Add(9*time.Second), 2)
	if other := recordOf(lease); other.Nonce == first.Nonce {
		t.Error("another leadership has the same nonce")
	}
}

// An operator empties holderIdentity by hand to depose a leader.
func TestHandThatEmptiesTheHolderMakesAVacancy(t *testing.T) {
	lease := written(t, held(1))
	empty := ""
	lease.Spec.HolderIdentity = &empty
	if got := recordOf(lease); got.Holder != "" || got.Nonce != "" {
		t.Errorf("%+v", got)
	}
}

func TestLeaseWithoutOrWithBadAnnotationIsReadFromItsSpec(t *testing.T) {
	for _, text := range []string{"", "{", `{"record":{"beat":-1}}`} {
		lease := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: "demo", Annotations: map[string]string{annotation: text}}}
		if got := recordOf(lease); got.Holder != "" || got.Nonce != "" {
			t.Errorf("%q: %+v", text, got)
		}
		act(lease, "op_1", 15, noon, noon, 3)
		if got := recordOf(lease); got.Holder != "op_1" || got.LeaseMs != 16_000 || got.Token != 0 {
			t.Errorf("%q: %+v", text, got)
		}
		lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = nil, nil
		if got := recordOf(lease); got.Holder != "op_1" || got.LeaseMs != 1000 {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestWhatElseIsInALeaseIsKept(t *testing.T) {
	lease := written(t, held(1))
	lease.Labels["team"] = "a"
	lease.Annotations["note"] = strings.Repeat("x", 10)
	lease.OwnerReferences = []meta.OwnerReference{{Name: "owner"}}
	if err := put(lease, "demo", held(2), map[string]string{"tier": "b"}, noon); err != nil {
		t.Fatal(err)
	}
	if lease.Labels["team"] != "a" || lease.Labels["tier"] != "b" || lease.Labels[label] != "true" ||
		lease.Annotations["note"] == "" || len(lease.OwnerReferences) != 1 {
		t.Errorf("%+v", lease.ObjectMeta)
	}
}
