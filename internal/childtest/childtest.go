// Package childtest is for tests that start processes: none of them is left
// behind, whatever becomes of the test.
//
// What always holds:
//
//	childtest-P1  The process is killed and waited for when the test ends,
//	              whether it passed, failed or was skipped. This includes a
//	              process stopped by a signal.
//	childtest-P2  On Linux it is killed with the process of the test, too,
//	              however that ends: by a panic of another test, its time limit,
//	              or kill -9.
package childtest

import (
	"fmt"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// outputWait is how long the end of a process waits for its output, which a
// child of its own may hold open.
const outputWait = 5 * time.Second

// Start starts the command and has it end with the test. The test may kill the
// process and wait for it before.
func Start(t testing.TB, command *exec.Cmd) {
	t.Helper()
	end, err := Begin(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
}

// Begin starts the command, and returns what ends it: it kills the process and
// waits for it, unless somebody did so before. Call it once.
func Begin(command *exec.Cmd) (end func(), err error) {
	if command.WaitDelay == 0 {
		command.WaitDelay = outputWait
	}
	dieWithUs(command)
	started, over := make(chan error, 1), make(chan struct{})
	go func() {
		// The system counts the thread that started a process as its parent, and
		// this one stays until then.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		started <- command.Start()
		<-over
	}()
	if err := <-started; err != nil {
		close(over)
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	return func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		close(over)
	}, nil
}
