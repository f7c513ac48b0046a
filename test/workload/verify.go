package workload

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Verify compares each server with the clients' answers, and the servers with each other.
// It returns all breaches, including those seen during the load. Finish must have been
// called.
func (l *Load) Verify(ctx context.Context, addrs []string) ([]string, error) {
	if err := l.awaitExpiry(ctx, addrs[0]); err != nil {
		return nil, err
	}
	trees, err := Trees(ctx, addrs, l.path(""), l.options.Client)
	if err != nil {
		return nil, err
	}
	breaches := l.Ledger.Breaches()
	for _, addr := range addrs {
		breaches = append(breaches, l.check(addr, trees[addr])...)
	}
	for _, addr := range addrs[1:] {
		breaches = append(breaches, Differences(addrs[0], addr, trees[addrs[0]], trees[addr])...)
	}
	return breaches, nil
}

// awaitExpiry waits until the ephemerals of lost sessions are gone, at most for twice the
// session timeout: a client that reaches no server considers its session lost before the
// servers do.
func (l *Load) awaitExpiry(ctx context.Context, addr string) error {
	within, cancel := context.WithTimeout(ctx, 2*l.options.SessionTimeout)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		tree, err := readTree(ctx, addr, l.path("/sessions"), l.options.Client)
		if err != nil {
			return fmt.Errorf("workload: read the sessions' znodes at %s: %w", addr, err)
		}
		left := 0
		for _, w := range l.writers {
			left += len(w.ghosts(tree))
		}
		if left == 0 {
			return nil
		}
		select {
		case <-poll.C:
		case <-within.Done():
			return ctx.Err() // Verify reports the remaining ones
		}
	}
}

// ghosts returns the ephemerals in a tree whose session is lost.
func (w *writer) ghosts(tree Tree) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ghosts []string
	for path, end := range w.sessions {
		if _, there := tree[path]; there && end == gone {
			ghosts = append(ghosts, path)
		}
	}
	return ghosts
}

// check compares one server's tree with the writers' answers.
func (l *Load) check(addr string, tree Tree) []string {
	shown := map[string]bool{}
	for path := range tree {
		if rest, ok := strings.CutPrefix(path, l.path("/w")); ok && strings.Contains(rest, "/") {
			shown[path] = true
		}
	}
	breaches := l.Ledger.Check(addr, shown, func(path string) bool { return strings.HasPrefix(path, l.path("/w")) })
	for _, w := range l.writers {
		breaches = append(breaches, w.checkRegister(addr, tree)...)
		breaches = append(breaches, w.checkSessions(addr, tree)...)
	}
	return breaches
}

func (w *writer) checkRegister(addr string, tree Tree) []string {
	path := w.load.register(w.id)
	z, ok := tree[path]
	count, err := strconv.ParseInt(string(z.Data), 10, 64)
	// A set of unknown outcome may have incremented the last known count.
	if ok && err == nil && (count == w.count || count == w.count+1) && int64(z.Stat.Version) == count {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s holds %q at version %d, acknowledged was %d", addr, path, z.Data, z.Stat.Version, w.count)}
}

func (w *writer) checkSessions(addr string, tree Tree) []string {
	var breaches []string
	for _, path := range w.ghosts(tree) {
		breaches = append(breaches, fmt.Sprintf("%s: %s is there, its session has expired", addr, path))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, end := range w.sessions {
		if _, there := tree[path]; end == standing && !there {
			breaches = append(breaches, fmt.Sprintf("%s: %s is gone, its session lives", addr, path))
		}
	}
	return breaches
}
