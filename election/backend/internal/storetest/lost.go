package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/record"
)

// lostLimit bounds the write whose answer is lost; lostDone bounds the time until that
// write is in the store.
const (
	lostLimit = 500 * time.Millisecond
	lostDone  = 30 * time.Second
)

// LostAnswer writes over a link that loses the answer. The error must not say that the
// write has failed, or when to write again; the next read must show the write; a repeated
// write must conflict with the first. direct reaches the store without the link.
func LostAnswer(t *testing.T, link Link, direct, far record.Store) {
	t.Helper()
	version, err := direct.Write(t.Context(), "e", record.Record{Heartbeat: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := far.Read(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	link.Delay(0, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), lostLimit)
	defer cancel()
	_, err = far.Write(ctx, "e", record.Record{Heartbeat: 2}, version)
	var notYet *record.NotYetError
	if err == nil || errors.Is(err, record.ErrConflict) || errors.As(err, &notYet) {
		t.Errorf("the write returned %v", err)
	}
	patient, cancel := context.WithTimeout(t.Context(), lostDone)
	defer cancel()
	r, now, err := direct.Read(patient, "e")
	for err == nil && now == version { // the write is still on its way
		r, now, err = direct.Read(patient, "e")
	}
	if err != nil || r.Heartbeat != 2 {
		t.Fatalf("read %+v, %v", r, err)
	}
	link.Reset()
	link.Heal()
	if _, err := far.Write(t.Context(), "e", record.Record{Heartbeat: 3}, version); !errors.Is(err, record.ErrConflict) {
		t.Errorf("a write over the version before: %v", err)
	}
}
