package lab

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/conclave-project/conclave/internal/claims"
)

// record is the content of the store's disk.
type record struct {
	record      claims.Record
	version     string
	versions    int // number of versions issued
	incarnation int
	adoptedUs   int64 // from this time on there may be new holders
}

// name returns the incarnation in the form that clients see. A store that has never
// forgotten anything has none.
func (d *record) name() string {
	if d.incarnation == 1 {
		return ""
	}
	return strconv.Itoa(d.incarnation)
}

// recordStore stores one record, with compare and set.
type recordStore struct {
	leases  *leases
	server  *server
	waiting []watcher
}

// watcher is a candidate that waits for a different version.
type watcher struct {
	candidate *server
	ask       storeAsk
}

func (r *recordStore) tick()                 {}
func (r *recordStore) wakeMs() (int64, bool) { return 0, false }

func (r *recordStore) receive(from *server, payload any) {
	ask := payload.(storeAsk)
	d := &r.leases.record
	switch ask.want.Kind {
	case claims.Wait:
		r.waiting = slices.DeleteFunc(r.waiting, func(w watcher) bool { return w.candidate == from })
		r.waiting = append(r.waiting, watcher{from, ask})
		r.tell()
	case claims.Read:
		r.answer(from, ask, "record", recordText(d), claims.Answer{Kind: claims.Shown, Record: d.record, Version: d.version,
			Incarnation: d.name(), Wall: r.wall()})
	case claims.Write:
		a := r.write(ask.want)
		r.answer(from, ask, a.Kind.String(), a.Kind.String(), a)
		r.tell()
	}
}

// wall returns the wall clock of the store. After it has forgotten its data, a store
// derives tokens from it, which are small here.
func (r *recordStore) wall() time.Time {
	return time.UnixMilli(r.leases.w.nowUs / 1000)
}

func recordText(d *record) string {
	if d.record.Holder == "" {
		return fmt.Sprintf("version %s: nobody leads, token %d", orNobody(d.version), d.record.Token)
	}
	return fmt.Sprintf("version %s: %s leads with token %d, heartbeat %d", d.version, d.record.Holder, d.record.Token, d.record.Heartbeat)
}

// write writes a record if its version is still the given one.
func (r *recordStore) write(w claims.Want) claims.Answer {
	d := &r.leases.record
	if d.version != w.Version {
		return claims.Answer{Kind: claims.Conflict}
	}
	takes := w.Record.Nonce != "" && w.Record.Nonce != d.record.Nonce
	left := d.adoptedUs - r.leases.w.nowUs
	if takes && (w.Record.Incarnation != d.name() || left > 0) {
		return claims.Answer{Kind: claims.NotYet, After: time.Duration(max(left, 0)) * time.Microsecond}
	}
	d.versions++
	d.record, d.version = w.Record, strconv.Itoa(d.versions)
	return claims.Answer{Kind: claims.Written, Version: d.version}
}

// tell answers the watchers whose version is no longer the current one.
func (r *recordStore) tell() {
	r.waiting = slices.DeleteFunc(r.waiting, func(w watcher) bool {
		if w.ask.want.Version == r.leases.record.version {
			return false
		}
		r.answer(w.candidate, w.ask, "changed", "the record has changed", claims.Answer{Kind: claims.Woken})
		return true
	})
}

func (r *recordStore) answer(to *server, ask storeAsk, kind, text string, a claims.Answer) {
	r.server.send(to, kind, text, storeAnswer{ask.request, a})
}

func (r *recordStore) view(v *Server) {
	d := &r.leases.record
	v.Shape, v.Role = "store", "store"
	v.field("holder", orNobody(d.record.Holder))
	v.field("token", strconv.FormatUint(uint64(d.record.Token), 10))
	if d.record.Next != nil {
		v.field("next", d.record.Next.ID)
	}
	v.field("version", orNobody(d.version))
}

// counter is the resource's content: a number that leaders add to.
type counter struct {
	value, writes, refused int
	highest                uint64 // the highest token that it has received
}

// resource is what a leader works on. With fencing it refuses a token lower than the
// highest that it has received.
type resource struct {
	leases *leases
	server *server
}

// counterAsk is a request to read or write the counter.
type counterAsk struct {
	request int
	token   uint64
	writes  bool
	value   int
}

type counterAnswer struct {
	request int
	refused bool
	value   int
}

func (r *resource) tick()                 {}
func (r *resource) wakeMs() (int64, bool) { return 0, false }

func (r *resource) receive(from *server, payload any) {
	ask := payload.(counterAsk)
	l, c := r.leases, &r.leases.counter
	answer := counterAnswer{request: ask.request}
	switch {
	case l.fenced && ask.token < c.highest:
		c.refused++
		answer.refused = true
		l.w.note(r.server, NoteState, "refuses %s: its token is %d, and %d was seen", from.id, ask.token, c.highest)
		r.server.send(from, "refused", "refused: a higher token was seen", answer)
		return
	case ask.writes:
		if ask.value != c.value+1 {
			l.w.breaks(l.updates, fmt.Sprintf("%s writes %d over %d: what was added in between is lost", from.id, ask.value, c.value))
		}
		c.value = ask.value
		c.writes++
		l.w.note(r.server, NoteState, "has %d, written by %s with token %d", c.value, from.id, ask.token)
	}
	c.highest = max(c.highest, ask.token)
	answer.value = c.value
	kind := map[bool]string{true: "written", false: "value"}[ask.writes]
	r.server.send(from, kind, fmt.Sprintf("%s: %d", kind, c.value), answer)
}

func (r *resource) view(v *Server) {
	c := r.leases.counter
	v.Shape, v.Role = "resource", "resource"
	v.field("value", strconv.Itoa(c.value))
	v.field("writes", strconv.Itoa(c.writes))
	if r.leases.fenced {
		v.field("highest token", strconv.FormatUint(c.highest, 10))
		v.field("refused", strconv.Itoa(c.refused))
	}
}
