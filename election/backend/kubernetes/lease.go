package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// What this package adds to a Lease.
const (
	annotation = "conclave-project.github.io/record"
	label      = "conclave-project.github.io/election"
)

// note is what the annotation holds.
type note struct {
	// Election is the election's name, which an object's name may not give.
	Election string        `json:"election"`
	Record   record.Record `json:"record"`
	// Mark is that of the spec beside which the note was written.
	Mark mark `json:"mark"`
}

// mark is what of a spec changes whenever somebody acquires, renews or
// releases. Times are in microseconds, as precise as those of a Lease.
type mark struct {
	Holder      string `json:"holder"`
	Acquired    int64  `json:"acquired"`
	Renewed     int64  `json:"renewed"`
	Transitions int32  `json:"transitions"`
}

func markOf(spec *coordination.LeaseSpec) mark {
	m := mark{Acquired: micros(spec.AcquireTime), Renewed: micros(spec.RenewTime)}
	if spec.HolderIdentity != nil {
		m.Holder = *spec.HolderIdentity
	}
	if spec.LeaseTransitions != nil {
		m.Transitions = *spec.LeaseTransitions
	}
	return m
}

func micros(t *meta.MicroTime) int64 {
	if t == nil {
		return 0
	}
	return t.UnixMicro()
}

// identity is how a holder of ours appears in a spec. It differs between any
// two claims: client-go takes a Lease with its own identity for its own.
func identity(r record.Record) string {
	if r.Holder == "" {
		return ""
	}
	return r.Holder + "_" + r.Nonce
}

// noteOf returns the note of a Lease; an empty one if there is none or it
// cannot be read, as it is no reason to stop electing.
func noteOf(lease *coordination.Lease) note {
	var n note
	if json.Unmarshal([]byte(lease.Annotations[annotation]), &n) != nil {
		return note{}
	}
	return n
}

// recordOf returns what a Lease says (kubernetes-G2).
func recordOf(lease *coordination.Lease) record.Record {
	n, now := noteOf(lease), markOf(&lease.Spec)
	if n.Mark == now || now.Holder != "" && now.Holder == identity(n.Record) {
		return n.Record
	}
	return foreign(n, now, lease.Spec.LeaseDurationSeconds)
}

// foreign returns the record of a spec that was written by somebody else since
// the note was: who holds is said by the spec; the last token, who is the
// successor and the history by the note.
func foreign(n note, now mark, seconds *int32) record.Record {
	r := n.Record
	before := r.Nonce
	r.Holder, r.Nonce, r.Heartbeat, r.LeaseMs, r.Priority, r.Metadata = now.Holder, "", uint64(now.Renewed), 0, 0, nil
	if now.Holder != "" {
		r.Nonce, r.LeaseMs = foreignNonce(now), foreignLeaseMs(seconds)
	}
	if r.Nonce == before && before != "" {
		return r
	}
	r.Request, r.Wanted = nil, ""
	if r.Next != nil {
		next := *r.Next
		next.State = ""
		r.Next = &next
	}
	r.History = succeeded(r.History, n.Mark, now)
	return r
}

// foreignNonce tells the leaderships of others apart.
func foreignNonce(m mark) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d", m.Holder, m.Acquired, m.Transitions))
	return hex.EncodeToString(sum[:16])
}

// foreignLeaseMs is how long to wait for a renewal of another holder: one
// second more than it says, as client-go drops what its LeaseDuration has
// beyond whole seconds.
func foreignLeaseMs(seconds *int32) int64 {
	if seconds == nil {
		return 1000
	}
	return (int64(*seconds) + 1) * 1000
}

// succeeded closes the last leadership of a history and adds the one that the
// spec now shows, if it shows one. It has no token: client-go knows none.
func succeeded(history []election.Tenure, before, now mark) []election.Tenure {
	history = slices.Clone(history)
	if last := len(history) - 1; last >= 0 && history[last].Until.IsZero() {
		history[last].Until = time.UnixMicro(now.Acquired).UTC()
		history[last].Reason = election.ReasonExpired.String()
		if now.Holder == "" && now.Transitions == before.Transitions {
			history[last].Reason = election.ReasonResigned.String()
		}
	}
	if now.Holder != "" {
		history = append(history, election.Tenure{Leader: now.Holder, Since: time.UnixMicro(now.Acquired).UTC()})
	}
	return history
}

// put makes a Lease say what the record does, at the given time by this
// machine's wall clock.
func put(lease *coordination.Lease, name string, r record.Record, labels map[string]string, now time.Time) error {
	before := recordOf(lease)
	if lease.ResourceVersion == "" || r.Holder != before.Holder || r.Nonce != before.Nonce || r.Heartbeat != before.Heartbeat {
		putSpec(&lease.Spec, r, now)
	}
	text, err := json.Marshal(note{name, r, markOf(&lease.Spec)})
	if err != nil {
		return fmt.Errorf("encode the record: %w", err)
	}
	lease.Annotations = with(lease.Annotations, map[string]string{annotation: string(text)})
	lease.Labels = with(with(lease.Labels, labels), map[string]string{label: "true"})
	return nil
}

// with adds entries to a map, which may be nil.
func with(to, from map[string]string) map[string]string {
	if to == nil {
		to = make(map[string]string, len(from))
	}
	maps.Copy(to, from)
	return to
}

// putSpec writes for client-go what it expects of a client that acquires, renews
// or releases.
func putSpec(spec *coordination.LeaseSpec, r record.Record, now time.Time) {
	before, holder := markOf(spec), identity(r)
	first := *spec == coordination.LeaseSpec{}
	now = now.Truncate(time.Microsecond)
	renewed, acquired, transitions, seconds := now, now, before.Transitions, int32(1)
	if holder != "" {
		seconds = int32(min((max(r.LeaseMs, 1)+999)/1000, math.MaxInt32))
	}
	switch {
	case holder != "" && holder == before.Holder:
		acquired = time.UnixMicro(before.Acquired)
		renewed = laterSecond(time.UnixMicro(before.Renewed), now)
	case holder != "" && !first && transitions < math.MaxInt32:
		transitions++
	}
	*spec = coordination.LeaseSpec{
		HolderIdentity:       &holder,
		LeaseDurationSeconds: &seconds,
		AcquireTime:          &meta.MicroTime{Time: acquired},
		RenewTime:            &meta.MicroTime{Time: renewed},
		LeaseTransitions:     &transitions,
	}
}

// laterSecond returns now if it lies in a later second than before, and else
// the beginning of the second that follows before (kubernetes-G4).
func laterSecond(before, now time.Time) time.Time {
	if now.Unix() > before.Unix() {
		return now
	}
	return time.Unix(before.Unix()+1, 0)
}
