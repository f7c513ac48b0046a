package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// orphanAge is how long a child must have been dead before it counts as an orphan: code
// that starts a process waits for it and collects it at once.
const orphanAge = time.Second

// startReaper collects orphans that end as children of this process: those of health
// checks, and those of the whole container if this is its first process. Children that
// other code of this process waits for are left to that code. The returned function stops
// the reaper.
func startReaper() (stop func()) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		reap(children, quit)
	}()
	return func() {
		signal.Stop(children)
		close(quit)
		<-ended
	}
}

func reap(children <-chan os.Signal, quit <-chan struct{}) {
	seen := make(map[int]time.Time) // dead children, and since when
	again := make(<-chan time.Time)
	for {
		select {
		case <-children:
		case <-again:
		case <-quit:
			return
		}
		seen = reapOlder(seen)
		again = nil
		if len(seen) > 0 {
			again = time.After(orphanAge / 2)
		}
	}
}

// reapOlder collects the dead children that were first seen long enough ago, and returns
// the others.
func reapOlder(seen map[int]time.Time) map[int]time.Time {
	now := time.Now()
	young := make(map[int]time.Time)
	for _, one := range processes() {
		if one.parent != os.Getpid() || !one.dead {
			continue
		}
		since, known := seen[one.pid]
		if !known {
			since = now
		}
		if now.Sub(since) < orphanAge {
			young[one.pid] = since
			continue
		}
		_, _ = syscall.Wait4(one.pid, nil, syscall.WNOHANG, nil)
	}
	return young
}
