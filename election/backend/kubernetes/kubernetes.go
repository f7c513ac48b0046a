// Package kubernetes elects on Lease objects of a Kubernetes API server.
//
// New takes the configuration of an API server. Every election is one Lease
// (coordination.k8s.io/v1) with the election's name in one namespace. Candidates that use
// client-go's leaderelection on the same Lease take part:
//
//	metadata:
//	  name: demo
//	  annotations:
//	    conclave-project.github.io/record: {"election":"demo","record":{...},"mark":{...}}
//	spec:                                  what client-go expects
//	  holderIdentity: web-1_4f1c...        id and nonce of the holder's claim
//	  leaseDurationSeconds: 10
//	  acquireTime, renewTime, leaseTransitions
//
// What always holds:
//
//	kubernetes-G1  Every write is an update of the resourceVersion that was read, or a create. It
//	               is sent once: no lower layer retries it.
//	kubernetes-G2  The annotation counts only together with the spec that was written with it.
//	               With any other spec, the spec says who leads: a client-go candidate has
//	               acquired, renewed or released. What client-go does not know, above all the last
//	               token, still comes from the annotation.
//	kubernetes-G3  The spec changes only when somebody acquires, renews or releases. A waiting
//	               candidate, or an operator, writes only the annotation: that prolongs nobody's
//	               lease, neither for us nor for client-go, which looks only at the spec.
//	kubernetes-G4  Each renewal carries a renewTime in a later second than the previous one,
//	               whatever the clock says, because client-go compares whole seconds: if it could
//	               not distinguish a renewal from an earlier one, it would count our lease from
//	               the earlier one. So with leases below 4 s renewTime runs ahead of the clock.
//	               Nobody compares it with a clock.
//	kubernetes-G5  leaseDurationSeconds is the lease rounded up; a lease of another client is
//	               taken to last a second longer than it says, because client-go rounds down.
//	kubernetes-G6  Everything else in the Lease is kept as it was.
//	kubernetes-G7  Events on the Lease say who became leader and who stopped leading, and why. The
//	               election never waits for an event to be recorded, and events may be lost.
//
// A holder that uses client-go has no fencing token, ignores priorities and carries out no
// request of an operator (who is told so). It is as safe as client-go is: it goes on until its
// RenewDeadline, counted from the answer to its last renewal, and it releases before it has told
// its function to end. Give it a LeaseDuration well above RenewDeadline + RetryPeriod. Candidates
// of client-go before v0.27 count their own LeaseDuration, not the holder's: give them one that
// is not shorter.
//
// The Role that a candidate needs is in examples/deploy/kubernetes.
package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// Options of a backend. The zero value is ready to use.
type Options struct {
	// Namespace is where the Leases are. Default "default"; Open's default is
	// that of the kubeconfig's context, or of the pod.
	Namespace string
	// Labels are added to the labels of every Lease that is written.
	Labels map[string]string
	// NoEvents turns off Events on the Leases. Without it, the candidate that takes or releases
	// an election records who became leader, or who stopped leading and why, as client-go does,
	// for kubectl describe and get events. That needs permission to create events; an event that
	// is refused, or takes more than 5 s, is dropped. No election waits for it.
	NoEvents bool
}

// scheme contains Lease and the types that a watch needs.
var (
	scheme    = newScheme()
	parameter = runtime.NewParameterCodec(scheme)
)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	meta.AddToGroupVersion(s, coordination.SchemeGroupVersion)
	if err := coordination.AddToScheme(s); err != nil {
		panic(err) // cannot happen: the types are registered once, here
	}
	return s
}

// New returns a backend on the API server of a configuration, which is copied. It connects on
// first use; close it when no candidate uses it any more.
func New(config *rest.Config, options Options) (*record.Backend, error) {
	s, err := newStore(config, options)
	if err != nil {
		return nil, err
	}
	return record.New(s, record.Options{Close: s.close}), nil
}

func newStore(config *rest.Config, options Options) (*store, error) {
	if options.Namespace == "" {
		options.Namespace = meta.NamespaceDefault
	}
	if wrong := validation.IsDNS1123Label(options.Namespace); len(wrong) > 0 {
		return nil, fmt.Errorf("kubernetes: namespace %q: %s", options.Namespace, strings.Join(wrong, ", "))
	}
	for _, key := range slices.Sorted(maps.Keys(options.Labels)) {
		wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(options.Labels[key])...)
		if len(wrong) > 0 {
			return nil, fmt.Errorf("kubernetes: label %s=%s: %s", key, options.Labels[key], strings.Join(wrong, ", "))
		}
	}
	// Each request that is not answered in time closes its HTTP/1.1 connection, and the
	// next request opens a new one. With HTTP/2, one dead connection would be shared by all
	// requests, and would cost every leadership before it is noticed.
	client, transport, err := connect(config, "http/1.1")
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	// All watches share one HTTP/2 connection, however many elections there are. Nothing
	// waits more than a second for a watch that reports nothing.
	watcher, streams, err := connect(config)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	eventsCtx, stopEvents := context.WithCancel(context.Background())
	return &store{silent: options.NoEvents, eventsCtx: eventsCtx, stopEvents: stopEvents, eventsDone: make(chan struct{}), client: client, watcher: watcher, transports: []*http.Client{transport, streams},
		namespace: options.Namespace, labels: maps.Clone(options.Labels), now: time.Now, done: make(chan struct{}),
		known: map[string]*coordination.Lease{}, watches: map[string]*watch{}}, nil
}

// connect returns a client for Leases only. It uses the given protocols, or the best that
// the server offers.
func connect(config *rest.Config, protocols ...string) (*rest.RESTClient, *http.Client, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &coordination.SchemeGroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.QPS = -1 // no rate limit: renewals must not wait for each other
	if protocols != nil {
		config.NextProtos = protocols
	}
	config.WarningHandler = rest.NoWarnings{} // standard error belongs to the program
	if config.UserAgent == "" {
		config.UserAgent = "conclave " + rest.DefaultKubernetesUserAgent()
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, err
	}
	client, err := rest.RESTClientForConfigAndClient(config, transport)
	return client, transport, err
}

// Traits returns what an election on a Lease depends on.
func (s *store) Traits() election.Traits {
	return election.Traits{
		Name:     "kubernetes",
		LeaseMin: time.Second,
		Guarantees: election.Guarantees{
			Failover: "none: an API server answers a write when a quorum of etcd has it. Elections stall while there is no quorum; " +
				"a restored backup of etcd may bring an old holder back",
			Clocks: "rates only: a Lease expires when a candidate has seen it unchanged for a whole lease by " +
				"its own clock",
			Token: "last token + 1, or milliseconds since 1970 by the new holder's clock if that is more; kept " +
				"in an annotation. Goes back if the Lease is deleted or restored and the new holder's clock is " +
				"behind the last holder's by more than the time between their grants",
			Renewal: "one update (one write in etcd) and one read by the holder, four in a lease",
			Waiting: "one watch on the Lease, which delivers it; a read when there is something to do. The " +
				"successor writes three times in a lease",
			Notice: "watch; poll every 1 s if watching is not allowed",
		},
	}
}

var errClosed = election.Permanent(fmt.Errorf("kubernetes: %w", election.ErrClosed))
