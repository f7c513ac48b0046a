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

// The names of what this package adds to a Lease.
const (
	annotation = "conclave-project.github.io/record"
	label      = "conclave-project.github.io/election"
)

// note is the content of the annotation.
type note struct {
	// Election is the election's name, which cannot always be derived from the object's
	// name.
	Election string        `json:"election"`
	Record   record.Record `json:"record"`
	// Mark is that of the spec that was written together with the note.
	Mark mark `json:"mark"`
}

// mark is the part of a spec that changes with every acquisition, renewal and release.
// Times are in microseconds, the precision of a Lease.
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

// identity returns how a holder of ours appears in a spec. Each claim has a different one,
// because client-go takes a Lease with its own identity for its own.
func identity(r record.Record) string {
	if r.Holder == "" {
		return ""
	}
	return r.Holder + "_" + r.Nonce
}

// noteOf returns the note of a Lease. It is empty if there is none or it cannot be read; a
// damaged note must not stop elections.
func noteOf(lease *coordination.Lease) note {
	var n note
	if json.Unmarshal([]byte(lease.Annotations[annotation]), &n) != nil {
		return note{}
	}
	return n
}

// recordOf returns the record that a Lease represents (kubernetes-G2).
func recordOf(lease *coordination.Lease) record.Record {
	n, now := noteOf(lease), markOf(&lease.Spec)
	if n.Mark == now || now.Holder != "" && now.Holder == identity(n.Record) {
		return n.Record
	}
	return foreign(n, now, lease.Spec.LeaseDurationSeconds)
}

// foreign returns the record of a Lease whose spec another client has written since the
// note was. The spec says who is the holder; the note gives the last token, the successor
// and the history.
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

// foreignNonce distinguishes the leaderships of other clients.
func foreignNonce(m mark) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d", m.Holder, m.Acquired, m.Transitions))
	return hex.EncodeToString(sum[:16])
}

// foreignLeaseMs returns how long to wait for a renewal of a holder of another client: a
// second more than the spec says, because client-go rounds its LeaseDuration down to whole
// seconds.
func foreignLeaseMs(seconds *int32) int64 {
	if seconds == nil {
		return 1000
	}
	return (int64(*seconds) + 1) * 1000
}

// succeeded ends the last leadership of a history and adds the one that the spec now shows,
// if any. That one has no token, because client-go has none.
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

// put writes a record into a Lease; now is this machine's wall clock.
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

// putSpec writes into the spec what client-go expects of a client that acquires, renews or
// releases.
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

// laterSecond returns now if it is in a later second than before; otherwise it returns the
// start of the second after before (kubernetes-G4).
func laterSecond(before, now time.Time) time.Time {
	if now.Unix() > before.Unix() {
		return now
	}
	return time.Unix(before.Unix()+1, 0)
}
