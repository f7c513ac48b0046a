package election

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/conclave-project/conclave/internal/elector"
)

// DiskCheck returns a health check that passes when a small file in the directory can be written,
// synced and removed. With this check a leader whose disk is full, read-only or stuck gives up
// its leadership.
func DiskCheck(directory string) func(context.Context) error {
	return func(context.Context) error {
		if err := probe(directory); err != nil {
			return fmt.Errorf("check the disk of %s: %w", directory, err)
		}
		return nil
	}
}

func probe(directory string) error {
	file, err := os.CreateTemp(directory, ".conclave-health-*")
	if err != nil {
		return err
	}
	_, errWrite := file.WriteString("healthy\n")
	errSync := file.Sync()
	errClose := file.Close()
	return errors.Join(errWrite, errSync, errClose, os.Remove(filepath.Clean(file.Name())))
}

// Checks returns a health check that passes when all of the given ones do.
func Checks(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, check := range checks {
			if err := check(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

func healthFailures(o Options) int {
	if o.Health == nil {
		return 0
	}
	return o.HealthFailures
}

// startChecks starts the health checks and returns a function that ends them.
func (r *run) startChecks() (end func()) {
	if r.elector.options.Health == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	r.workers.Go(func() { r.check(ctx) })
	return cancel
}

// check runs the checks one after the other until the context ends. A check that hangs
// counts as failed, again after each pause.
func (r *run) check(ctx context.Context) {
	every := r.elector.options.HealthEvery
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for ctx.Err() == nil {
		one, cancel := context.WithTimeout(ctx, every)
		r.awaitCheck(one, contain(one, "health check", r.elector.options.Health), ticks.C)
		cancel()
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
	}
}

// awaitCheck waits for one check and reports its result.
func (r *run) awaitCheck(ctx context.Context, result <-chan error, ticks <-chan time.Time) {
	for {
		select {
		case err := <-result:
			if err == nil && ctx.Err() != nil {
				err = errCheckLate
			}
			r.report(report{event: elector.Health{Passed: err == nil}, err: err})
			return
		case <-r.done:
			return
		case <-ticks:
			if ctx.Err() != nil {
				r.report(report{event: elector.Health{}, err: errCheckHangs})
			}
		}
	}
}

var (
	errCheckHangs = errors.New("the health check takes longer than the pause between two checks")
	errCheckLate  = errors.New("the health check took longer than the pause between two checks")
)

// contain runs user code in a goroutine of its own. A panic, or an end of that goroutine
// without a return, becomes an error.
func contain(ctx context.Context, what string, call func(context.Context) error) <-chan error {
	result := make(chan error, 1)
	go func() {
		err := fmt.Errorf("the %s ended its goroutine (runtime.Goexit)", what)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the %s panicked: %v", what, p)
			}
			result <- err
		}()
		err = call(ctx)
	}()
	return result
}
