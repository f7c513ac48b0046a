package electiontest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

// allBytes is as much metadata as is allowed, of all bytes, line breaks and what is not
// UTF-8 among them.
func allBytes() []byte {
	metadata := make([]byte, election.MetadataMax)
	for i := range metadata {
		metadata[i] = byte(i)
	}
	return metadata
}

// sees is a view with a leader and waiters that say of themselves what is given.
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

// testMetadata lets candidates say something of themselves, which must be seen as they
// said it: of the leader and of waiters, over renewals and heartbeats, after a request, a
// transfer and a release; what they say in the next campaign; and nothing of one that
// says nothing.
func testMetadata(t *testing.T, s Suite) {
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
		s.handOver(t, second, first) // which may have lost the lead on a busy machine
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

// awaitRenewals returns when a member has renewed so many times more.
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
