package autobackup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/cmd/conclave/internal/sealed"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/redact"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/zk"
)

// Server is the server to back up: a *server.Server.
type Server interface {
	Status() server.Status
	Config() server.Config
	SnapDir() string
	LogDir() string
}

// Open opens a place for writing. unlock is called after the backup.
type Open func(ctx context.Context) (place backup.Place, unlock func(), err error)

// Runner takes the backups of one server. Report may be called by any goroutine.
type Runner struct {
	settings Settings
	open     Open
	clock    clock.Clock
	stall    time.Duration // stallTime
	logger   *slog.Logger
	failures lobby.Failures

	mu     sync.Mutex
	report server.BackupReport
	since  clock.Instant // of the last success, or when it became this server's turn
}

// New returns the runner for a server. The server will be started with the same logger and
// clock.
func New(s Settings, open Open, c clock.Clock, logger *slog.Logger) *Runner {
	return &Runner{settings: s, open: open, clock: c, stall: stallTime, logger: logger, report: server.BackupReport{On: true, Every: s.Every}}
}

// Report returns the totals.
func (r *Runner) Report() server.BackupReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := r.report
	if report.Due {
		report.Age = r.clock.Now().Sub(r.since)
	}
	return report
}

const (
	// lookTime is how often a server that is not to take backups checks whether that has
	// changed.
	lookTime = 10 * time.Second
	// retryTime is the longest time until a failed backup is tried again.
	retryTime = time.Minute
	// stallTime is how long a backup may make no progress before it is given up: a store
	// that never answers would block it for ever.
	stallTime = 10 * time.Minute
)

// Run takes backups until ctx or the server ends.
func (r *Runner) Run(ctx context.Context, s Server) {
	wait := min(lookTime, r.settings.Every)
	for r.sleep(ctx, wait) {
		began := r.clock.Now()
		st := s.Status()
		switch {
		case st.Ended:
			return
		case !r.due(&st):
			wait = min(lookTime, r.settings.Every)
			continue
		}
		taken, err := r.take(ctx, s)
		if ctx.Err() != nil {
			return
		}
		wait = r.settings.Every
		switch {
		case errors.Is(err, vfs.ErrLocked):
			r.logger.Debug("another server takes a backup", "place", redact.URL(r.settings.Place))
		case err != nil:
			wait = min(wait, retryTime)
			r.failed(err)
		default:
			r.succeeded(&taken)
		}
		busy := r.clock.Now().Sub(began)
		wait = max(wait-busy, min(busy, r.settings.Every)) // rest as long as the backup took
	}
}

func (r *Runner) sleep(ctx context.Context, d time.Duration) bool {
	timer := r.clock.Timer(r.clock.Now().Add(d))
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// due reports whether this server must take a backup now. A server that serves nobody does
// not know what is committed.
func (r *Runner) due(st *server.Status) bool {
	due := !r.settings.LeaderAlone()
	switch st.Mode {
	case server.ModeLeader, server.ModeStandalone:
		due = true
	case server.ModeFollower, server.ModeObserver:
	default:
		due = false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if due && !r.report.Due {
		r.since = r.clock.Now()
	}
	r.report.Due = due
	return due
}

func (r *Runner) succeeded(taken *backup.Taken) {
	r.mu.Lock()
	r.report.Taken++
	r.report.Bytes += taken.Bytes
	r.report.Last = taken.Last
	if taken.Gap {
		r.report.Gaps++
	}
	r.since = r.clock.Now()
	r.mu.Unlock()
	if taken.Gap {
		r.logger.Warn("the log does not continue the last backup: the states in between are missing from it; take backups more often, or purge less",
			"place", redact.URL(r.settings.Place))
	}
	if taken.Transactions > 0 || taken.Snapshot != "" {
		r.logger.Info("backup taken", "place", redact.URL(r.settings.Place), "transactions", taken.Transactions,
			"snapshot", taken.Snapshot, "bytes", taken.Bytes, "zxid", taken.Last.String())
	}
}

func (r *Runner) failed(err error) {
	r.mu.Lock()
	r.report.Failed++
	r.mu.Unlock()
	if count, tell := r.failures.Note(r.clock.Now().Millis()); tell {
		r.logger.Error("no backup was taken; earlier backups are unchanged", "place", redact.URL(r.settings.Place), "error", err, "failures", count)
	}
}

// take takes one backup.
func (r *Runner) take(ctx context.Context, s Server) (taken backup.Taken, err error) {
	p := newPace(ctx, r.clock, r.settings.BytesPerSecond, r.stall)
	defer func() {
		if err != nil && context.Cause(p.ctx) == errStalled {
			err = errStalled
		}
		p.end()
	}()
	place, unlock, err := r.open(p.ctx)
	if err != nil {
		return taken, err
	}
	defer unlock()
	place = &guarded{Place: place, pace: p, free: r.free, freeMin: r.settings.FreeBytesMin}
	b, err := backup.Open(p.ctx, sealed.New(place, r.settings.Recipients, nil))
	if err != nil {
		return taken, err
	}
	c := s.Config()
	taken, err = b.Take(p.ctx, backup.Source{
		FS: pacedFS{c.FS, p}, SnapDir: s.SnapDir(), LogDir: s.LogDir(),
		BufferBytesMax: c.ReadBytesMax(), PayloadBytesMax: c.ReadBytesMax(), Now: c.Wall,
		Committed: func(context.Context) (zk.Zxid, error) { return committed(s) },
	}, backup.Options{SnapshotEvery: r.settings.SnapshotEvery})
	if err != nil {
		return taken, err
	}
	if r.settings.KeepFor > 0 {
		if _, err := b.Keep(p.ctx, c.Wall(), r.settings.KeepFor); err != nil {
			return taken, fmt.Errorf("what was taken is safe, but old files were not removed: %w", err)
		}
	}
	return taken, nil
}

// free returns the free space on the disk of a directory.
func (r *Runner) free() (int64, bool) {
	if r.settings.InStore() {
		return 0, false
	}
	_, free, known := admin.Space(r.settings.Place)
	return int64(free), known
}

// committed returns the last zxid that a server has applied. A server that serves has
// applied only what is committed.
func committed(s Server) (zk.Zxid, error) {
	switch st := s.Status(); st.Mode {
	case server.ModeLeader, server.ModeStandalone, server.ModeFollower, server.ModeObserver:
		return st.Last, nil
	}
	return 0, errors.New("nobody leads at the moment, so it is not known what is committed")
}
