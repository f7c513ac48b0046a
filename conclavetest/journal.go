package conclavetest

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/server"
)

// journal records what happened in an ensemble, for a test that fails.
type journal struct {
	start time.Time
	log   testing.TB // nil if nothing is printed at once

	mu      sync.Mutex
	lines   []string // the last lines of all servers
	leaders []string // every change of leader
	dropped int
}

// The limits of what is kept.
const (
	journalLines   = 400
	journalLeaders = 200
)

func newJournal(log testing.TB) *journal { return &journal{start: time.Now(), log: log} }

// note adds a line.
func (j *journal) note(format string, args ...any) {
	j.add(fmt.Sprintf(format, args...), false)
}

func (j *journal) add(text string, leader bool) {
	line := fmt.Sprintf("%9.3fs  %s", time.Since(j.start).Seconds(), text)
	j.mu.Lock()
	if len(j.lines) == journalLines {
		j.lines = append(j.lines[:0], j.lines[journalLines/2:]...)
		j.dropped += journalLines / 2
	}
	j.lines = append(j.lines, line)
	if leader && len(j.leaders) < journalLeaders {
		j.leaders = append(j.leaders, line)
	}
	j.mu.Unlock()
	if j.log != nil {
		j.log.Log(line)
	}
}

// roleChanged is called by the loop of a server.
func (j *journal) roleChanged(id int, role server.Role) {
	switch role.Mode {
	case server.ModeLeader:
		j.add(fmt.Sprintf("server %d leads, epoch %d", id, role.Epoch), true)
	case server.ModeFollower, server.ModeObserver:
		j.note("server %d is %s of server %d, epoch %d", id, role.Mode, role.Leader, role.Epoch)
	default:
		j.note("server %d is %s", id, role.Mode)
	}
}

// ended is called for a server that has stopped by itself.
func (j *journal) ended(id int, reason error) { j.note("server %d has stopped: %v", id, reason) }

// logger returns the logger of a server.
func (j *journal) logger(id int) *slog.Logger {
	return slog.New(slog.NewTextHandler(journalWriter{j}, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // the journal has a time of its own
			}
			return a
		},
	})).With("server", id)
}

// journalWriter takes the lines that a server logs.
type journalWriter struct{ journal *journal }

// Write implements io.Writer.
func (w journalWriter) Write(b []byte) (int, error) {
	w.journal.note("%s", bytes.TrimRight(b, "\n"))
	return len(b), nil
}

// text returns all that is kept.
func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	b.WriteString("conclavetest: who led:\n")
	for _, line := range j.leaders {
		b.WriteString(line + "\n")
	}
	b.WriteString("conclavetest: what happened")
	if j.dropped > 0 {
		fmt.Fprintf(&b, " (without the first %d lines)", j.dropped)
	}
	b.WriteString(":\n")
	for _, line := range j.lines {
		b.WriteString(line + "\n")
	}
	return b.String()
}
