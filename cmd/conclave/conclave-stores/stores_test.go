package main

import (
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/command"
	"github.com/conclave-project/conclave/cmd/conclave/internal/scripts"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets this test binary be both programs, and the guardian that `run`
// starts from either.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.GuardianArg {
		os.Exit(supervise.Guardian())
	}
	testscript.Main(m, map[string]func(){
		"conclave":        func() { os.Exit(command.Main(nil)) },
		"conclave-stores": main,
	})
}

func TestEveryStoreThatNeedsAnSDKIsLinked(t *testing.T) {
	got, want := slices.Sorted(maps.Keys(openers)), slices.Sorted(slices.Values(command.WithSDK()))
	if !slices.Equal(got, want) {
		t.Errorf("linked are %q, the command line knows %q", got, want)
	}
}

// TestScripts are shell sessions as a user would type them.
func TestScripts(t *testing.T) { scripts.Run(t, "testdata/script", "") }
