package storetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"

	"github.com/conclave-project/conclave/election/record"
)

// memory honours contexts, which a store without I/O need not do.
type memory struct{ *record.Memory }

func (m memory) Read(ctx context.Context, name string) (record.Record, string, error) {
	if err := ctx.Err(); err != nil {
		return record.Record{}, "", err
	}
	return m.Memory.Read(ctx, name)
}

func (m memory) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return m.Memory.Write(ctx, name, r, version)
}

func (m memory) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	return errors.Join(m.Memory.Wait(ctx, name, version, limit), ctx.Err())
}

func TestMemoryStorePasses(t *testing.T) {
	m := memory{record.NewMemory(nil)}
	Run(t, Suite{Open: func(testing.TB) record.Store { return m }, Delete: func(_ testing.TB, name string) { m.Delete(name) }})
}

func TestTortureOfMemory(t *testing.T) {
	m := record.NewMemory(nil)
	Torture{Candidates: 3, Lease: 200 * time.Millisecond, LeadersMin: 3, For: time.Second,
		Open: func(context.Context, int) (election.Backend, func() error, error) {
			b := record.New(m, record.Options{})
			return b, b.Close, nil
		},
		Faults: map[string]func(*testing.T, *rand.Rand){"nothing": func(*testing.T, *rand.Rand) {}}}.Run(t)
}

func TestTortureFindsTwoLeadersAndOldTokens(t *testing.T) {
	b := &spans{list: []span{{"a", 5, 10, 20}, {"b", 6, 19, 30}, {"c", 6, 30, 40}, {"d", 7, 40, 50}}}
	if wrong := b.judge(); len(wrong) != 2 {
		t.Errorf("found %q", wrong)
	}
}
