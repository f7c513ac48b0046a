// Package storetest tests record.Store implementations on real stores. Package electiontest
// tests elections; this package tests what is below them: compare and set, versions, fresh
// reads and news. It also tests candidates, places and locks while the store suffers faults
// (Torture).
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// Suite says how to reach the store under test.
type Suite struct {
	// Open opens the store as another process would.
	Open func(t testing.TB) record.Store
	// Delete deletes a record, as an operator might.
	Delete func(t testing.TB, name string)
	// NoticeWithin is how soon after a change Wait must end. Default 2 s.
	NoticeWithin time.Duration
}

const (
	patience = 30 * time.Second
	writers  = 8
	rounds   = 25
)

// Run runs all tests.
func Run(t *testing.T, s Suite) {
	if s.NoticeWithin == 0 {
		s.NoticeWithin = 2 * time.Second
	}
	for _, test := range []struct {
		name string
		test func(*testing.T, Suite)
	}{
		{"MissingRecordIsZero", testMissing},
		{"OneOfManyWritersWins", testOneWins},
		{"NoVersionComesBack", testVersions},
		{"AnsweredWritesAreRead", testFresh},
		{"RecordsComeBackAsTheyWere", testFull},
		{"NamesAreKeptApart", testNames},
		{"WaitEndsSoonAfterAChange", testWait},
		{"CallsEndWithTheirContext", testContext},
	} {
		t.Run(test.name, func(t *testing.T) { test.test(t, s) })
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func read(t testing.TB, s record.Store, name string) (record.Record, string) {
	t.Helper()
	r, version, err := s.Read(within(t), name)
	if err != nil {
		t.Fatalf("read %q: %v", name, err)
	}
	return r, version
}

func write(t testing.TB, s record.Store, name string, r record.Record, version string) string {
	t.Helper()
	next, err := s.Write(within(t), name, r, version)
	if err != nil {
		t.Fatalf("write %q over %q: %v", name, version, err)
	}
	if next == "" || next == version {
		t.Fatalf("write %q over version %q gave version %q", name, version, next)
	}
	return next
}

func testMissing(t *testing.T, s Suite) {
	r, version := read(t, s.Open(t), "missing")
	if version != "" || !reflect.DeepEqual(r, record.Record{}) {
		t.Errorf("version %q, %+v", version, r)
	}
	_, err := s.Open(t).Write(within(t), "missing", record.Record{Heartbeat: 1}, write(t, s.Open(t), "other", record.Record{}, ""))
	if !errors.Is(err, record.ErrConflict) {
		t.Errorf("a write over a version of another record: %v", err)
	}
	if _, version := read(t, s.Open(t), "missing"); version != "" {
		t.Errorf("it was made, version %q", version)
	}
}

func testOneWins(t *testing.T, s Suite) {
	const name = "race"
	var stores [writers]record.Store
	for i := range stores {
		stores[i] = s.Open(t)
	}
	version := ""
	for round := range rounds {
		var group sync.WaitGroup
		var versions [writers]string
		var errs [writers]error
		for i, store := range stores {
			group.Go(func() {
				versions[i], errs[i] = store.Write(within(t), name, record.Record{Heartbeat: uint64(round*writers + i)}, version)
			})
		}
		group.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("round %d: writers %d and %d have both won", round, winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, record.ErrConflict):
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody has won", round)
		}
		r, now := read(t, stores[0], name)
		if now != versions[winner] || r.Heartbeat != uint64(round*writers+winner) {
			t.Fatalf("round %d: version %q with heartbeat %d, the winner wrote %q", round, now, r.Heartbeat, versions[winner])
		}
		version = now
	}
}

func testVersions(t *testing.T, s Suite) {
	const name = "again"
	store := s.Open(t)
	seen := map[string]bool{}
	last := ""
	for generation := range 3 {
		version := ""
		for i := range 20 {
			version = write(t, store, name, record.Record{Heartbeat: uint64(i)}, version)
			if seen[version] {
				t.Fatalf("generation %d: version %q has come back", generation, version)
			}
			seen[version] = true
			if last == "" {
				continue
			}
			if _, err := store.Write(within(t), name, record.Record{}, last); !errors.Is(err, record.ErrConflict) {
				t.Fatalf("a write over the version %q from before the record was deleted: %v", last, err)
			}
		}
		last = version
		s.Delete(t, name)
		if _, now := read(t, store, name); now != "" {
			t.Fatalf("version %q after it was deleted", now)
		}
		if _, err := store.Write(within(t), name, record.Record{}, last); !errors.Is(err, record.ErrConflict) {
			t.Fatalf("a write over the version %q of a deleted record: %v", last, err)
		}
	}
}

func testFresh(t *testing.T, s Suite) {
	const name = "fresh"
	stores := []record.Store{s.Open(t), s.Open(t), s.Open(t)}
	version := ""
	for i := range 60 {
		version = write(t, stores[i%len(stores)], name, record.Record{Heartbeat: uint64(i)}, version)
		r, now := read(t, stores[(i+1)%len(stores)], name)
		if now != version || r.Heartbeat != uint64(i) {
			t.Fatalf("heartbeat %d, version %q is read after heartbeat %d, version %q", r.Heartbeat, now, i, version)
		}
	}
}

// full returns a record with the longest names and the longest history that occur.
func full() record.Record {
	id := strings.Repeat("ä\"\\'%", 30)[:180]
	at := time.Date(2026, 11, 21, 12, 0, 0, 123_000_000, time.UTC)
	r := record.Record{Holder: id, Nonce: strings.Repeat("f", 32), Token: 1<<63 + 12345, LeaseMs: 10_000, Heartbeat: 1<<63 + 1,
		Priority: 1000, Wanted: id, Touch: 1<<64 - 1, Request: &election.Request{Transfer: id, Token: 1<<63 + 5, By: "\u2028" + id},
		Next: &record.Next{ID: id, Nonce: strings.Repeat("e", 32), Priority: 7, LeaseMs: 500, Heartbeat: 1 << 63, State: record.StateReady}}
	for i := range election.HistoryMin + 1 {
		r.History = append(r.History, election.Tenure{Leader: id, Token: 1<<62 + election.Token(i), Since: at, Until: at, Reason: "resigned"})
	}
	return r
}

func testFull(t *testing.T, s Suite) {
	store := s.Open(t)
	want := full()
	if incarnated, ok := store.(record.Incarnated); ok {
		// The first attempt tells the incarnation.
		var notYet *record.NotYetError
		if _, err := store.Write(within(t), "full", want, ""); !errors.As(err, &notYet) || notYet.After != 0 {
			t.Fatalf("a new holder under no incarnation: %v", err)
		}
		want.Incarnation = incarnated.Incarnation()
	}
	version := write(t, store, "full", want, "")
	got, now := read(t, store, "full")
	if now != version || !reflect.DeepEqual(got, want) {
		t.Errorf("version %q of %q, got\n%+v\nwant\n%+v", now, version, got, want)
	}
	version = write(t, store, "full", record.Record{}, version)
	if got, now := read(t, store, "full"); now != version || !reflect.DeepEqual(got, record.Record{}) {
		t.Errorf("what was emptied is %+v", got)
	}
}

// names are distinct names, each difficult for some store.
var names = []string{"n", "N", "n/b", "n%2fb", "n=2Fb", "n.b", ".n", "n.", "..n", "n..b", "n b", "näß", "n\\b", "n:b", "n*b", "n>b", "n'b\"c", "n;--",
	"n{1}", "n\u00a0b", "日本", strings.Repeat("x", election.NameBytesMax), strings.Repeat("ü", election.NameBytesMax/2)}

func testNames(t *testing.T, s Suite) {
	store := s.Open(t)
	for i, name := range names {
		if err := election.ValidateName(name); err != nil {
			t.Fatal(err)
		}
		write(t, store, name, record.Record{Heartbeat: uint64(i + 1)}, "")
	}
	for i, name := range names {
		if r, _ := read(t, store, name); r.Heartbeat != uint64(i+1) {
			t.Errorf("%q: heartbeat %d, not %d", name, r.Heartbeat, i+1)
		}
	}
	list, err := store.Names(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if count := len(slices.DeleteFunc(slices.Clone(list), func(n string) bool { return n != name })); count != 1 {
			t.Errorf("%q is listed %d times", name, count)
		}
	}
	if slices.Contains(list, "") {
		t.Error("an empty name is listed")
	}
}

func testWait(t *testing.T, s Suite) {
	const name = "news"
	writer, waiter := s.Open(t), s.Open(t)
	version := write(t, writer, name, record.Record{}, "")
	if err := waiter.Wait(within(t), name, "", patience); err != nil { // the record already has another version
		t.Fatal(err)
	}
	slowest := time.Duration(0)
	for i := range 8 {
		ended := make(chan error, 1)
		waits := func() { ended <- awaitVersion(within(t), waiter, name, version) }
		if i%2 == 0 {
			go waits()
		}
		next := write(t, writer, name, record.Record{Heartbeat: uint64(i)}, version)
		began := time.Now()
		if i%2 == 1 {
			go waits() // the change comes between the read and the wait
		}
		if err := <-ended; err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if i > 0 { // the first wait may have to connect
			slowest = max(slowest, time.Since(began))
		}
		version = next
	}
	if slowest > s.NoticeWithin {
		t.Errorf("news took %v", slowest)
	}
	t.Logf("news took at most %v", slowest)
	began := time.Now()
	if err := waiter.Wait(within(t), name, version, 50*time.Millisecond); err != nil || time.Since(began) > patience/2 {
		t.Errorf("after its limit of 50 ms: %v, %v", err, time.Since(began))
	}
}

// awaitVersion waits until the record has another version, as a candidate does: a single
// wait may end without a change, but the change must be noticed eventually.
func awaitVersion(ctx context.Context, s record.Store, name, version string) error {
	for range 1000 {
		if err := s.Wait(ctx, name, version, patience); err != nil {
			return err
		}
		if _, now, err := s.Read(ctx, name); err != nil || now != version {
			return err
		}
	}
	return fmt.Errorf("1000 waits have ended and version %q is still there", version)
}

func testContext(t *testing.T, s Suite) {
	store := s.Open(t)
	version := write(t, store, "context", record.Record{}, "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for {
			if err := store.Wait(ctx, "context", version, patience); err != nil {
				ended <- err
				return
			}
		}
	}()
	cancel()
	select {
	case <-ended:
	case <-time.After(patience / 2):
		t.Fatal("Wait does not honour its context")
	}
	if _, _, err := store.Read(ctx, "context"); err == nil {
		t.Error("a read beyond the end of its context")
	}
	if _, err := store.Write(ctx, "context", record.Record{}, version); err == nil || errors.Is(err, record.ErrConflict) {
		t.Errorf("a write beyond the end of its context: %v", err)
	}
}
