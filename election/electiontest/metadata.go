package electiontest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// allBytes returns as much metadata as is allowed, with all byte values, including line
// breaks and bytes that are not UTF-8.
func allBytes() []byte {
	metadata := make([]byte, election.MetadataMax)
	for i := range metadata {
		metadata[i] = byte(i)
	}
	return metadata
}

// sees returns a function that reports whether a view has this leader and these waiters,
// with their metadata.
func sees(traits election.Traits, leader election.Waiter, waiters ...election.Waiter) func(election.View) bool {
	return func(v election.View) bool {
		if v.Err != nil || v.Leader != leader.ID || !bytes.Equal(v.Metadata, leader.Metadata) {
			return false
		}
		return !traits.Waiters || slices.EqualFunc(v.Waiters, waiters, func(a, b election.Waiter) bool {
			return a.ID == b.ID && bytes.Equal(a.Metadata, b.Metadata)
		})
	}
}

// testMetadata gives candidates metadata, which must be seen unchanged: the leader's and
// the waiters', across renewals and heartbeats, after a request, a transfer and a
// release; the metadata of the next campaign; and none for a candidate that has none.
func testMetadata(t *testing.T, s Suite) {
	s.Lease *= 3 // a leader that is to be seen with its waiters may not lose the lead; twelve renewals are awaited
	h, url := s.newHistory(), s.URL(t)
	backend := s.Open(t, url)
	traits := backend.Traits()
	a, b := election.Waiter{ID: "a", Metadata: allBytes()}, election.Waiter{ID: "b", Metadata: []byte("\n\xff\xfe \"b\" \x00\n")}
	run := func(w election.Waiter) *member {
		return s.run(t, h, s.Open(t, url), "metadata", election.Options{ID: w.ID, Metadata: w.Metadata})
	}
	first := run(a)
	await(t, s, "a is elected", first.events.elected)
	second := run(b)
	s.awaitView(t, url, "metadata", sees(traits, a, b))
	s.awaitRenewals(t, first, 10)
	if operator, ok := backend.(election.Operator); ok {
		request := election.Request{Transfer: "nobody", By: "the suite"}
		if err := operator.Ask(s.within(t), "metadata", request); err != nil {
			t.Errorf("ask: %v", err)
		}
		s.awaitRenewals(t, first, 2)
	}
	if _, ok := backend.(election.Nominator); ok {
		s.handOver(t, second, first) // second may have lost the lead on a busy machine
		s.awaitView(t, url, "metadata", sees(traits, a, b))
		s.handOver(t, first, second)
		s.awaitView(t, url, "metadata", sees(traits, b, a))
		s.handOver(t, second, first)
	}
	s.awaitView(t, url, "metadata", sees(traits, a, b))
	first.end(t, s)
	s.awaitView(t, url, "metadata", sees(traits, b))
	changed := election.Waiter{ID: "a", Metadata: []byte("http://10.0.0.7:8080 v2")}
	third := run(changed)
	s.awaitView(t, url, "metadata", sees(traits, b, changed))
	second.end(t, s)
	s.awaitView(t, url, "metadata", sees(traits, changed))
	fourth := run(election.Waiter{ID: "silent"})
	s.awaitView(t, url, "metadata", sees(traits, changed, election.Waiter{ID: "silent"}))
	third.end(t, s)
	s.awaitView(t, url, "metadata", sees(traits, election.Waiter{ID: "silent"}))
	fourth.end(t, s)
	s.verify(t, h, -1)
}

// awaitRenewals returns once a member has renewed this many more times.
func (s Suite) awaitRenewals(t testing.TB, m *member, more int) {
	t.Helper()
	before, ctx := m.events.count(election.EventRenewed), s.within(t)
	for m.events.count(election.EventRenewed) < before+more {
		if ctx.Err() != nil {
			t.Fatalf("%s has not renewed %d times", m.elector.ID(), more)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
