// Package clientgo lets programs that use client-go's leaderelection elect their leader on any
// backend of Conclave.
//
// NewLock takes the LeaderElectionConfig that the program has, and returns its Lock. The
// program's callbacks, its health check (WatchDog) and client-go's metrics stay as they are:
//
//	config.Lock, err = clientgo.NewLock(config, backend, "reports", election.Options{})
//	leaderelection.RunOrDie(ctx, config)
//
// What always holds:
//
//	clientgo-I1  As long as the process runs, client-go's loop ends, and the context of
//	             OnStartedLeading with it, before anybody else may lead: the loop is told that it
//	             leads only while the leadership holds for another RenewDeadline + RetryPeriod,
//	             the time after which it gives up.
//	clientgo-I2  If the loop has not ended when its leadership is over, because the process was
//	             frozen or the leadership was taken, the process is ended at once. Options.OnStuck
//	             can replace this.
//	clientgo-I3  The leadership is released only with ReleaseOnCancel, and only when the context
//	             of Run was cancelled. Otherwise, even after a transfer, it runs out: within
//	             EndLimit and a lease, or within a lease once the process has ended.
//
// client-go releases before it calls OnStoppedLeading, and does not wait for OnStartedLeading to
// return: with ReleaseOnCancel, end the leader's work before you cancel the context of Run. Work
// that must not depend on this order carries the fencing token:
//
//	lock.Leadership().Token()
package clientgo

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/controller/internal/lock"
)

// Lock is a value for LeaderElectionConfig.Lock, for one LeaderElector at a time.
type Lock struct {
	resourcelock.Interface
	inner *lock.Lock
}

// Leadership returns the leadership that was reported to client-go, with its fencing token;
// before the first one, the zero Leadership. Its Err is nil while it holds.
func (l *Lock) Leadership() election.Leadership { return l.inner.Leadership() }

// Elector returns the candidate: for its Status, or for Observe.
func (l *Lock) Elector() *election.Elector { return l.inner.Elector() }

// NewLock returns the Lock for a config. The other fields of the config have the same meaning as
// for client-go's own locks. LeaseDuration is the lease; it must exceed RenewDeadline +
// RetryPeriod by a tenth (a twentieth for clocks that differ in rate, and the time that a renewal
// takes). The zero Options are ready to use; Lease and Grace follow from the config. Events are
// logged by klog and passed to Options.OnEvent. It does no I/O. An error matches
// election.ErrInvalid.
func NewLock(config leaderelection.LeaderElectionConfig, backend election.Backend, name string, options election.Options) (*Lock, error) {
	options, err := withConfig(options, config)
	if err != nil {
		return nil, fmt.Errorf("election %q: %w: %w", name, election.ErrInvalid, err)
	}
	logger := slog.New(logr.ToSlogHandler(klog.Background()))
	options.OnEvent = election.LogEvents(logger, options.OnEvent)
	inner, err := lock.New(backend, name, options, lock.Options{
		Keep:   config.RenewDeadline + config.RetryPeriod + config.LeaseDuration/20,
		Others: config.Callbacks.OnNewLeader != nil,
	})
	if err != nil {
		return nil, err
	}
	return &Lock{inner, inner}, nil
}

// withConfig completes the options from the config.
func withConfig(options election.Options, config leaderelection.LeaderElectionConfig) (election.Options, error) {
	drift := options.ClockDriftPercent
	if drift == 0 {
		drift = election.ClockDriftPercentDefault
	}
	keep := config.RenewDeadline + config.RetryPeriod
	least := keep * 100 / time.Duration(90-drift)
	switch {
	case config.Coordinated:
		return options, errors.New("LeaderElectionConfig.Coordinated: the control plane would choose the leader; leave it out")
	case options.Lease != 0 && options.Lease != config.LeaseDuration:
		return options, fmt.Errorf("lease %v and LeaseDuration %v: leave Options.Lease out", options.Lease, config.LeaseDuration)
	case options.Grace != 0:
		return options, fmt.Errorf("grace %v: client-go gives RenewDeadline instead; leave Options.Grace out", options.Grace)
	case config.LeaseDuration < least:
		return options, fmt.Errorf("LeaseDuration %v is too short for RenewDeadline + RetryPeriod = %v: make it %v or more",
			config.LeaseDuration, keep, least.Round(time.Millisecond))
	}
	options.Lease = config.LeaseDuration
	options.Grace = time.Millisecond // by then the loop has ended: lock-K1
	return options, nil
}
