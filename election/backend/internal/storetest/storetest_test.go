package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/record"
)

// memory heeds contexts, which a store without I/O need not do.
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
