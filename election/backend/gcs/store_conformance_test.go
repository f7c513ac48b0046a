//go:build linux && conformance

package gcs

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/conclave-project/conclave/election/backend/internal/objects"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/test/stores"
)

func TestStoreOnFakeGCSServer(t *testing.T) {
	server := stores.Start(t, "gcs")
	storetest.Run(t, storetest.Suite{
		Open: func(t testing.TB) record.Store { return storeAt(t, server, server.Addr) },
		Delete: func(t testing.TB, name string) {
			s := storeAt(t, server, server.Addr)
			if err := s.api.remove(t.Context(), objects.Key(s.options.Prefix, name)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// storeAt returns a store on a server that is reached at the given address.
func storeAt(t testing.TB, server *stores.Server, addr string) *store {
	t.Helper()
	target, err := parseURL(strings.Replace(server.URL, server.Addr, addr, 1) + "&poll=50ms")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(&http.Client{Transport: newTransport()}, target.options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEmulatorHonoursConditionsAtOnce: of many requests that make or replace one
// object at the same time, each over a connection of its own, one succeeds.
func TestEmulatorHonoursConditionsAtOnce(t *testing.T) {
	const writers, rounds = 16, 100
	server := stores.Start(t, "gcs")
	var all [writers]*store
	for i := range all {
		all[i] = storeAt(t, server, server.Addr)
	}
	generation := "0"
	for round := range rounds {
		var group sync.WaitGroup
		var made [writers]string
		for i, s := range all {
			group.Go(func() {
				after, err := s.api.insert(t.Context(), "at-once", []byte("{}"), generation)
				if err != nil && !isRefused(err) {
					t.Error(err)
				}
				made[i] = after
			})
		}
		group.Wait()
		won := strings.Fields(strings.Join(made[:], " "))
		if len(won) != 1 {
			t.Fatalf("round %d: %d writes over generation %s: %q", round, len(won), generation, won)
		}
		generation = won[0]
	}
}

// TestWriteWhoseAnswerIsLostIsNoConflict: its outcome is unknown, and the next read reveals it.
func TestWriteWhoseAnswerIsLostIsNoConflict(t *testing.T) {
	server := stores.Start(t, "gcs")
	link, err := server.Link()
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	far := storeAt(t, server, link.Addr)
	far.probing.Skip()
	storetest.LostAnswer(t, link, storeAt(t, server, server.Addr), far)
}
