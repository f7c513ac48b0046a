// Package controller lets a Kubernetes controller built on controller-runtime elect its leader on
// any backend of Conclave.
//
// NewManager takes what ctrl.NewManager takes, and returns a manager. One line changes:
//
//	mgr, err := ctrl.NewManager(config, options)
//	mgr, err := controller.NewManager(config, options, controller.Election{})
//
// The zero Election uses the same Lease as the manager did before, so replicas with and without
// this change share it during a rollout. With LeaderElection set, the following always holds:
//
//	controller-N1  Runnables that need leader election, above all reconcilers, run only while this
//	               manager leads. Their context ends Options.Grace before anybody else may lead,
//	               with the reason as its cause, and at once when a frozen process resumes. Start
//	               returns that reason once they have ended.
//	controller-N2  If they have not ended when others may lead, the process is ended
//	               (Options.OnStuck can replace this).
//	controller-N3  The election is released only with LeaderElectionReleaseOnCancel, and
//	               only after all runnables have ended. Otherwise it runs out.
//	controller-N4  While another candidate leads, caches, webhooks, probes and runnables that do
//	               not need leader election run as they do without this package; the manager
//	               learns without polling that it leads.
//
// A manager leads once: as with controller-runtime, the process ends after Start has returned,
// and Kubernetes starts it again. From LeadershipFrom a reconciler gets the fencing token of the
// leadership that it runs in.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/kubernetes"
	"github.com/conclave-project/conclave/election/controller/internal/lock"
)

// LeaseDefault is the lease if neither manager.Options.LeaseDuration nor Options.Lease is set:
// the default of controller-runtime.
const LeaseDefault = 15 * time.Second

// Election is how a manager elects. The zero value elects on a Lease.
type Election struct {
	// Backend is where the election is held, under the name LeaderElectionID. Nil is
	// the Lease of that name in LeaderElectionNamespace, by default the pod's, on the
	// API server of LeaderElectionConfig, by default the manager's. The caller closes
	// a Backend of its own after Start has returned.
	Backend election.Backend
	// Options of the candidate. Lease may be given as LeaseDuration of the manager's options, and
	// Grace as the difference between that and RenewDeadline. Once is always set. Events are
	// logged by the manager's logger and passed to OnEvent.
	Options election.Options
}

// NewManager is manager.New with a different leader election. It refuses the options that only
// client-go's election can honour: LeaderElectionResourceLockInterface, RetryPeriod, a
// LeaderElectionResourceLock other than "leases", and with a Backend LeaderElectionNamespace,
// LeaderElectionLabels and LeaderElectionConfig. Without LeaderElection it does the same as
// manager.New, except that it still refuses bad options.
func NewManager(config *rest.Config, options manager.Options, e Election) (manager.Manager, error) {
	if err := check(options, e); err != nil {
		return nil, fmt.Errorf("controller: %w: %w", election.ErrInvalid, err)
	}
	if !options.LeaderElection {
		return manager.New(config, options)
	}
	backend, end := e.Backend, func() error { return nil }
	if backend == nil {
		leases, err := leasesOf(config, options)
		if err != nil {
			return nil, fmt.Errorf("controller: %w", err)
		}
		backend, end = leases, leases.Close
	}
	m := &elected{release: options.LeaderElectionReleaseOnCancel, close: end, patience: patienceDefault}
	if limit := options.GracefulShutdownTimeout; limit != nil {
		m.patience = *limit
	}
	m.below(options.BaseContext)
	var err error
	if m.lock, err = lock.New(backend, options.LeaderElectionID, candidate(options, e.Options),
		lock.Options{Finished: true, OnElected: m.begin}); err != nil {
		return nil, err
	}
	options.LeaderElectionResourceLockInterface = m.lock
	options.LeaderElectionReleaseOnCancel = false // Start releases, once everything has ended
	options.LeaseDuration, options.RenewDeadline = nil, nil
	options.BaseContext = func() context.Context { return m.base }
	if m.Manager, err = manager.New(config, options); err != nil {
		return nil, err
	}
	return m, m.Add(watch{m})
}

// candidate completes the election options from the manager's options.
func candidate(options manager.Options, o election.Options) election.Options {
	switch {
	case options.LeaseDuration != nil:
		o.Lease = *options.LeaseDuration
	case o.Lease == 0:
		o.Lease = LeaseDefault
	}
	if options.RenewDeadline != nil {
		o.Grace = o.Lease - *options.RenewDeadline
	}
	logger := options.Logger
	if logger.GetSink() == nil {
		logger = log.Log
	}
	o.OnEvent = election.LogEvents(slog.New(logr.ToSlogHandler(logger.WithName("election"))), o.OnEvent)
	return o
}

// check returns an error for options that cannot be honoured.
func check(options manager.Options, e Election) error {
	lease, grace := e.Options.Lease, e.Options.Grace
	switch kind := options.LeaderElectionResourceLock; {
	case options.LeaderElectionResourceLockInterface != nil:
		return errors.New("LeaderElectionResourceLockInterface: the election is held by Election.Backend; leave it out")
	case options.RetryPeriod != nil:
		return errors.New("RetryPeriod: a candidate is told of its turn, and renews four times in a lease; leave it out")
	case kind != "" && kind != resourcelock.LeasesResourceLock:
		return fmt.Errorf("LeaderElectionResourceLock %q: there is %q alone", kind, resourcelock.LeasesResourceLock)
	case options.LeaseDuration != nil && lease != 0 && *options.LeaseDuration != lease:
		return fmt.Errorf("LeaseDuration %v and lease %v: leave one out", *options.LeaseDuration, lease)
	case options.RenewDeadline != nil && grace != 0:
		return fmt.Errorf("RenewDeadline %v and grace %v: leave one out", *options.RenewDeadline, grace)
	}
	if options.RenewDeadline != nil {
		if lease = candidateLease(options, lease); *options.RenewDeadline < lease/2 || *options.RenewDeadline >= lease {
			return fmt.Errorf("RenewDeadline %v: must be from half of the lease, %v, to less than all of it",
				*options.RenewDeadline, lease/2)
		}
	}
	if options.LeaderElectionReleaseOnCancel && options.GracefulShutdownTimeout != nil && *options.GracefulShutdownTimeout == 0 {
		return errors.New("LeaderElectionReleaseOnCancel: with a GracefulShutdownTimeout of 0 nothing says that the " +
			"runnables have ended; leave one of them out")
	}
	if e.Backend != nil && (options.LeaderElectionNamespace != "" || options.LeaderElectionLabels != nil || options.LeaderElectionConfig != nil) {
		return errors.New("LeaderElectionNamespace, LeaderElectionLabels and LeaderElectionConfig are for Leases; " +
			"give them to Election.Backend, or leave that out")
	}
	return nil
}

func candidateLease(options manager.Options, lease time.Duration) time.Duration {
	return candidate(manager.Options{LeaseDuration: options.LeaseDuration}, election.Options{Lease: lease}).Lease
}

// namespaceFile holds the namespace of a pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// closer is a backend that is closed after use.
type closer interface {
	election.Backend
	Close() error
}

// leasesOf returns the backend on the Leases that the manager's own election would use.
func leasesOf(config *rest.Config, options manager.Options) (closer, error) {
	if options.LeaderElectionConfig != nil {
		config = options.LeaderElectionConfig
	}
	if config == nil {
		return nil, errors.New("no rest.Config given")
	}
	namespace := options.LeaderElectionNamespace
	if namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, fmt.Errorf("find the pod's namespace: %w; set LeaderElectionNamespace", err)
		}
		namespace = strings.TrimSpace(string(text))
	}
	return kubernetes.New(config, kubernetes.Options{Namespace: namespace, Labels: options.LeaderElectionLabels})
}

type leadershipKey struct{}

// LeadershipFrom returns the leadership in which a runnable or a reconciler of a manager runs,
// given its context: for the fencing token, or for Ensure before a step that must not be
// interrupted. It returns false if the manager does not use leader election, or has not been
// elected yet.
func LeadershipFrom(ctx context.Context) (election.Leadership, bool) {
	held, ok := ctx.Value(leadershipKey{}).(*atomic.Pointer[election.Leadership])
	if !ok || held.Load() == nil {
		return election.Leadership{}, false
	}
	return *held.Load(), true
}
