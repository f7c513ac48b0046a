package electormodel

import (
	"slices"
	"strconv"
	"time"

	"github.com/conclave-project/conclave/internal/claims"
)

// store is the store with its clock: a part of the model's world.
type store struct {
	NowMs, RateMs int64
	// Sides are the histories of the record: the first one lasts; a second one, while there
	// is one, confirms nothing and will be lost.
	Sides []side
	// Astray are the candidates that reach the second side.
	Astray  []name
	Written int // number of versions issued
}

// side is one history of the record.
type side struct {
	Record      claims.Record
	Version     string
	Incarnation int
	AdoptedMs   int64 // from this time on there may be new holders
	// Led: there was a holder under this incarnation. Only what was written since then may
	// be forgotten: a store that also forgets the beginning of its incarnation relies on
	// wall clocks for its tokens (incarnation-I4), and this model has no wall clocks.
	Led    bool
	Copies []copied
}

// copied is an earlier state of the record.
type copied struct {
	Record  claims.Record
	Version string
}

// copiesMax is how many earlier states a failover may return to: the oldest that the store
// may fall back to, and the one before the last write.
const copiesMax = 2

// ask is a request to the store, and answer is the store's reply.
type ask struct {
	From name
	Call call
	// Mute: nobody waits for the answer any longer.
	Mute bool
	Want claims.Want
}

type answer struct {
	To     name
	Call   call
	Answer claims.Answer
}

// The events of a store, apart from requests.
type (
	// fail is a failover, to a copy or to the current record.
	fail struct{ Copy int }
	// part splits the store in two; heal joins it again.
	part struct{ Astray []name }
	heal struct{}
)

// take handles an event.
func (r *store) take(event any, mutant Mutant) []any {
	switch e := event.(type) {
	case pass:
		r.NowMs += r.RateMs
	case ask:
		if a := r.request(e, mutant); !e.Mute {
			return []any{answer{e.From, e.Call, a}}
		}
	case fail:
		d := &r.Sides[0]
		if e.Copy >= 0 {
			d.Record, d.Version = d.Copies[e.Copy].Record, d.Copies[e.Copy].Version
		}
		r.renew(d)
	case part:
		r.Astray = e.Astray
		r.Sides = append(r.Sides, r.Sides[0])
		r.renew(&r.Sides[0])
	case heal:
		r.Astray, r.Sides = nil, r.Sides[:1]
	}
	return nil
}

// renew begins an incarnation: nobody is elected until every lease that the store may have
// forgotten has expired.
func (r *store) renew(d *side) {
	d.Incarnation++
	d.AdoptedMs, d.Led, d.Copies = r.NowMs+leaseMs, false, nil
}

// at returns the side that a candidate reaches.
func (r *store) at(n name) *side {
	if len(r.Sides) > 1 && slices.Contains(r.Astray, n) {
		return &r.Sides[1]
	}
	return &r.Sides[0]
}

func (r *store) request(e ask, mutant Mutant) claims.Answer {
	d := r.at(e.From)
	incarnation := strconv.Itoa(d.Incarnation)
	if mutant == NotStrided {
		incarnation = ""
	}
	if e.Want.Kind == claims.Read {
		return claims.Answer{Kind: claims.Shown, Record: d.Record, Version: d.Version, Incarnation: incarnation}
	}
	if d.Version != e.Want.Version && mutant != BlindWrites {
		return claims.Answer{Kind: claims.Conflict}
	}
	record := e.Want.Record
	takes := record.Nonce != "" && record.Nonce != d.Record.Nonce
	if left := d.AdoptedMs - r.NowMs; takes && (record.Incarnation != incarnation || left > 0) {
		return claims.Answer{Kind: claims.NotYet, After: time.Duration(max(left, 0)) * time.Millisecond}
	}
	r.set(d, record, takes)
	if len(r.Sides) > 1 && d == &r.Sides[1] {
		return claims.Answer{} // not confirmed
	}
	return claims.Answer{Kind: claims.Written, Version: d.Version}
}

func (r *store) set(d *side, record claims.Record, takes bool) {
	if d.Led {
		if len(d.Copies) == copiesMax {
			d.Copies = d.Copies[:copiesMax-1]
		}
		d.Copies = append(d.Copies, copied{d.Record, d.Version})
	}
	r.Written++
	d.Record, d.Version, d.Led = record, strconv.Itoa(r.Written), d.Led || takes
}
