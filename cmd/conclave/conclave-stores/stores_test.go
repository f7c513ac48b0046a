package main

import (
	"context"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/command"
	"github.com/conclave-project/conclave/cmd/conclave/internal/scripts"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets this test binary act as both programs, and as the guardian that `run`
// starts from either.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.GuardianArg {
		os.Exit(supervise.Guardian())
	}
	testscript.Main(m, map[string]func(){
		"conclave":         func() { os.Exit(command.Main(nil, nil)) },
		"conclave-stores":  main,
		"conclave-put-off": func() { os.Exit(command.Main(map[string]command.Open{"redis": openPutOff}, nil)) },
	})
}

// putOff is a store that may have forgotten a holder, so a process must have watched an
// election for a while before it takes it. Each process opens its own.
type putOff struct {
	*record.Memory
	began time.Time
}

// putOffFor is longer than the time for one attempt.
const putOffFor = 3 * time.Second

func openPutOff(context.Context, string) (election.Backend, func() error, error) {
	b := record.New(putOff{record.NewMemory(nil), time.Now()}, record.Options{})
	return b, b.Close, nil
}

func (p putOff) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if left := putOffFor - time.Since(p.began); left > 0 && r.Nonce != "" {
		return "", &record.NotYetError{After: left}
	}
	return p.Memory.Write(ctx, name, r, version)
}

func TestEveryStoreThatNeedsAnSDKIsLinked(t *testing.T) {
	got, want := slices.Sorted(maps.Keys(openers)), slices.Sorted(slices.Values(command.WithSDK()))
	if !slices.Equal(got, want) {
		t.Errorf("linked are %q, the command line knows %q", got, want)
	}
}

// TestScripts are shell sessions as a user would type them.
func TestScripts(t *testing.T) { scripts.Run(t, "testdata/script", "") }
