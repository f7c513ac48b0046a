//go:build amd64 || arm64

package electiontest_test

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/supervise"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/servertest"
	"github.com/conclave-project/conclave/test/servers"
)

// mutants lists which test of the suite finds each mutant, and what its finding contains.
var mutants = []struct{ name, suite, test, finding, what string }{
	{"guardian-does-not-kill", "TestMutantOfARun", "FrozenRunKeepsNoCommandAlive", "led beside",
		"the guardian's signals reach nobody"},
	{"run-does-not-kill", "TestMutantOfARun", "FrozenGuardianKeepsNoCommandAlive", "led beside",
		"the signals of conclave run reach nobody, and no timer continues its guardian"},
	{"lease-from-answer", "TestMemoryStorePassesTheSuite", "DiskOfSecondsElectsNoTwo", "led beside",
		"a lease counts from the answer, not from the request"},
}

// TestMain makes this process a mutant if it is meant to be one: a guardian, or the run
// around it, whose signals reach nobody.
func TestMain(m *testing.M) {
	guardian := len(os.Args) > 1 && os.Args[1] == supervise.GuardianArg
	run := os.Getenv("CONCLAVE_ELECTIONTEST_CANDIDATE") != "" && !guardian && os.Getenv("CONCLAVE_ELECTIONTEST_ACTOR") == ""
	switch os.Getenv(mutantEnv) {
	case "guardian-does-not-kill":
		if guardian {
			loseSignals()
		}
	case "run-does-not-kill":
		if run {
			loseSignals()
			denyTimers()
		}
	}
	os.Exit(electiontest.Main(m, openServer))
}

func openServer(url string) (election.Backend, error) { return zookeeper.New(url, zookeeper.Options{}) }

// TestMutantOfARun is the suite on a server in this process, for TestSuiteFindsMutants.
func TestMutantOfARun(t *testing.T) {
	if os.Getenv(mutantEnv) == "" {
		return // election/backend/zookeeper runs the same
	}
	electiontest.Run(t, electiontest.Suite{Lease: 2 * time.Second,
		URL: func(t testing.TB) string { return servertest.Start(t, fastTicks) },
		Open: func(t testing.TB, url string) election.Backend {
			b, err := zookeeper.New(url, zookeeper.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Close() })
			return b
		},
		Proxy: func(t testing.TB, url string) (string, electiontest.Link) {
			link, err := servers.NewLink(url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(link.Close)
			return link.Addr, link
		}})
}

// fastTicks lets sessions expire soon.
func fastTicks(config *server.Config) { config.TickTime = 100 * time.Millisecond }

// triesMax limits the runs of the suite with one bug. On a busy machine a lease can
// expire before the strike, and the rest then reveals nothing of the bug.
const triesMax = 5

// TestSuiteFindsMutants runs the suite with each bug in a process of its own until it
// has found the bug.
func TestSuiteFindsMutants(t *testing.T) {
	for _, one := range mutants {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			t.Attr("what", one.what)
			for range triesMax {
				var out bytes.Buffer
				child := exec.Command(os.Args[0], "-test.run=^"+one.suite+"$/^"+one.test+"$", "-test.v")
				child.Env = append(os.Environ(), mutantEnv+"="+one.name)
				child.Stdout, child.Stderr = &out, &out
				childtest.Start(t, child)
				if child.Wait() != nil && strings.Contains(out.String(), one.finding) {
					t.Logf("%s: %s", one.test, one.finding)
					return
				}
				t.Logf("%s has not found it:\n%s", one.test, out.String())
			}
			t.Errorf("%s has not found it in %d runs", one.test, triesMax)
		})
	}
}

// Constants of seccomp(2), its programs, and limits; package syscall has none of them.
const (
	seccompSetModeFilter = 1
	seccompTSync         = 1
	seccompAllow         = 0x7fff0000
	seccompErrno0        = 0x00050000 // the call is not made, and returns 0
	prSetNoNewPrivs      = 38
	sysPidfdSendSignal   = 424
	rlimitSigPending     = 11
)

// denyTimers makes the kernel create no POSIX timers for this process and those that it starts.
func denyTimers() {
	if err := syscall.Setrlimit(rlimitSigPending, &syscall.Rlimit{}); err != nil {
		panic(err)
	}
}

// loseSignals makes kill(2) and pidfd_send_signal(2) do nothing and succeed, in this
// process and all that it starts.
func loseSignals() {
	seccomp := map[string]uintptr{"amd64": 317, "arm64": 277}[runtime.GOARCH]
	load := syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS
	equal := syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K
	filter := []syscall.SockFilter{
		{Code: uint16(load)}, // the number of the call
		{Code: uint16(equal), Jt: 2, K: syscall.SYS_KILL},
		{Code: uint16(equal), Jt: 1, K: sysPidfdSendSignal},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: seccompAllow},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: seccompErrno0},
	}
	program := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0)
	if errno == 0 {
		_, _, errno = syscall.Syscall(seccomp, seccompSetModeFilter, seccompTSync, uintptr(unsafe.Pointer(&program)))
	}
	if errno != 0 {
		panic(errno)
	}
}
