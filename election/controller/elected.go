package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/controller/internal/lock"
)

// elected is a manager that uses our election.
type elected struct {
	manager.Manager
	lock    *lock.Lock
	release bool         // release the election once everything has ended
	close   func() error // of the backend

	// patience is how long the manager waits for its runnables, negative for ever; stopping
	// is when it began to wait, nil before.
	patience time.Duration
	stopping atomic.Pointer[time.Time]

	// base is the parent of the contexts of all runnables, and ends with the leadership.
	base   context.Context
	cancel context.CancelCauseFunc
	lead   atomic.Pointer[election.Leadership]
	over   atomic.Pointer[error] // why the leadership is over; nil while it is not
}

// below derives the context of all runnables from the user's own, if there is one.
func (m *elected) below(own manager.BaseContextFunc) {
	parent := context.Background()
	if own != nil {
		parent = own()
	}
	m.base, m.cancel = context.WithCancelCause(context.WithValue(parent, leadershipKey{}, &m.lead))
}

// begin is called with a leadership before the manager learns of it. The end of the
// leadership ends the manager, even if it had not begun to lead: the process is started
// again.
func (m *elected) begin(ctx context.Context, lead election.Leadership) {
	m.lead.Store(&lead)
	context.AfterFunc(ctx, func() {
		why := context.Cause(ctx)
		m.over.Store(&why)
		m.cancel(why)
	})
}

// why returns why the leadership is over, nil if it is not.
func (m *elected) why() error {
	if why := m.over.Load(); why != nil {
		return *why
	}
	return nil
}

// Start is manager.Start, but also returns when the leadership is over, with the reason.
func (m *elected) Start(ctx context.Context) error {
	err := m.Manager.Start(ctx)
	why := m.why() // nil if ctx has ended, or a runnable has failed
	if m.leavesRunning(err) {
		m.lock.Stop() // the process must end, and is ended by force if necessary
	} else {
		m.lock.Finish(m.release)
		err = errors.Join(err, m.close())
	}
	if why == nil || errors.Is(err, why) {
		return err
	}
	return errors.Join(fmt.Errorf("controller: the leadership is over: %w", why), err)
}

// patienceDefault is controller-runtime's default.
const patienceDefault = 30 * time.Second

// leavesRunning reports whether a manager that returns err has not waited for all of its
// runnables. The manager's error then matches context.DeadlineExceeded and has a certain
// text. A runnable's error may look the same, so it counts only if the time was nearly
// over, or if the text is known.
func (m *elected) leavesRunning(err error) bool {
	switch {
	case m.patience == 0:
		return true
	case m.patience < 0 || !errors.Is(err, context.DeadlineExceeded):
		return false
	}
	began := m.stopping.Load()
	return began == nil || time.Since(*began) > m.patience/2 || strings.Contains(err.Error(), "failed waiting for all runnables to end")
}

// watch is the runnable that ends the manager when the leadership is over.
type watch struct{ m *elected }

// NeedLeaderElection returns false: it runs from the beginning.
func (watch) NeedLeaderElection() bool { return false }

// Start waits for the end of the manager or of the leadership.
func (w watch) Start(ctx context.Context) error {
	<-ctx.Done()
	now := time.Now()
	w.m.stopping.Store(&now)
	return w.m.why()
}
