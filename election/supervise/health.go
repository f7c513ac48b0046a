package supervise

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Health is a health check that runs a command with /bin/sh: it passes if the command exits with
// code 0. Its Check is an election.Options.Health. It may be used by several goroutines.
type Health struct {
	// Command is what the shell runs, in the environment of this process.
	Command string

	mu sync.Mutex // held while the command runs, or by a caller that does not let it run
	// endMu guards end, which cancels the running command.
	endMu sync.Mutex
	end   context.CancelFunc
}

// outputMax is how many bytes of a check's output are kept, counted from its end.
const outputMax = 500

// pauseStep is the time between two attempts to end the running command.
const pauseStep = 2 * time.Millisecond

// Check runs the command once. When the context ends, the command and its
// process group are killed, and the check has failed.
func (h *Health) Check(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.endMu.Lock()
	h.end = cancel
	h.endMu.Unlock()
	var said tail
	check := shellCommand{text: h.Command, env: os.Environ(), stdout: &said, stderr: &said}
	err := check.run(ctx)
	switch text := strings.TrimSpace(said.String()); {
	case err == nil:
		return nil
	case text == "":
		return fmt.Errorf("health check %q: %w", h.Command, err)
	default:
		return fmt.Errorf("health check %q: %w: %s", h.Command, err, text)
	}
}

// pause ends the running command and does not let another one begin until the returned
// function is called. On a nil Health it does nothing.
func (h *Health) pause() (resume func()) {
	if h == nil {
		return func() {}
	}
	for !h.mu.TryLock() { // another check may have just begun
		h.endMu.Lock()
		if h.end != nil {
			h.end()
		}
		h.endMu.Unlock()
		time.Sleep(pauseStep)
	}
	return h.mu.Unlock
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > outputMax {
		t.text = t.text[len(t.text)-outputMax:]
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.text), "\uFFFD") }
