package command_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/command"
	"github.com/conclave-project/conclave/cmd/conclave/internal/scripts"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary act as the command, as the guardian that `run`
// starts from it, and as a stand-in for conclave-stores.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == supervise.GuardianArg {
		os.Exit(supervise.Guardian())
	}
	// Scripts wait for processes, leases and ticks, so more of them run at a time
	// than there are cores.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"conclave":        func() { os.Exit(command.Main(nil, nil)) },
		"conclave-stores": standIn,
	})
}

// standIn takes the place of conclave-stores. With STORES=linked, it acts as
// conclave-stores with a single store. Otherwise it prints who it is and how it was
// called, and ends with a code that no command has.
func standIn() {
	if os.Getenv("STORES") == "linked" {
		os.Exit(command.Main(map[string]command.Open{"etcd": refuse}, nil))
	}
	fmt.Printf("process %d is %s, called with %q\n", os.Getpid(), filepath.Base(os.Args[0]), os.Args[1:])
	os.Exit(42)
}

func refuse(_ context.Context, url string) (election.Backend, func() error, error) {
	return nil, nil, fmt.Errorf("opened %s with %q", url, os.Getenv("CONCLAVE_STORES_FOR"))
}

// TestScripts are shell sessions as a user would type them.
func TestScripts(t *testing.T) { scripts.Run(t, "testdata/script", "") }

// TestElectionScripts are sessions that behave the same way on every store.
func TestElectionScripts(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) string{
		"file":     func(*testing.T) string { return "file://$WORK/elections" },
		"conclave": func(t *testing.T) string { return "zk://" + conclavetest.Start(t).Servers() },
	} {
		t.Run(name, func(t *testing.T) { scripts.Run(t, "testdata/election", store(t)) })
	}
}
