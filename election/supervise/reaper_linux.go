package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// orphanAge is after how long a child that has ended is nobody's: a caller
// that starts a process waits for its end and takes note at once.
const orphanAge = time.Second

// startReaper takes note of orphans that end as children of this process: those
// of health checks, and those of the whole container when this is its first
// process. Children that somebody here waits for are left to them. The returned
// function ends it.
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
	seen := make(map[int]time.Time) // the dead, and since when
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

// reapOlder takes note of the dead that were seen long enough ago, and returns
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
