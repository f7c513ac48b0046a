package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

const (
	resource = "leases"
	// requestMax is how long a request may take, even if its context allows more.
	requestMax = 15 * time.Second
	// pageMax is how many Leases one request lists.
	pageMax = 500
	// knownMax is how many elections' last Leases are kept.
	knownMax = 1000
)

// store is a record.Store of the Leases in one namespace.
type store struct {
	client     *rest.RESTClient // for all requests except watches
	watcher    *rest.RESTClient
	transports []*http.Client // of both clients
	namespace  string
	labels     map[string]string
	now        func() time.Time
	// served has the verbs that the server has carried out, and get after any of them. From
	// then on a refusal counts as temporary; roles allow each verb separately.
	served sync.Map

	// done is closed when the store is.
	done chan struct{}

	// silent turns off Events. Requests for Events end with eventsCtx, which stopEvents
	// cancels. eventsDone is closed when the store was closed and the last of these
	// requests has ended.
	silent     bool
	eventsCtx  context.Context
	stopEvents context.CancelFunc
	eventsDone chan struct{}

	mu      sync.Mutex
	known   map[string]*coordination.Lease // by election; never changed in place
	watches map[string]*watch              // by election
	closed  bool
	events  int            // requests for Events that have not ended
	group   sync.WaitGroup // goroutines of watches and Events
}

// close ends all watches and releases the connections.
func (s *store) close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for _, w := range s.watches {
		w.cancel()
		if w.idle != nil {
			w.idle.Stop()
		}
	}
	open := s.events > 0
	s.mu.Unlock()
	s.endEvents(open)
	s.group.Wait()
	for _, transport := range s.transports {
		transport.CloseIdleConnections()
	}
	return nil
}

// Read gets the Lease without a resourceVersion, which is a quorum read.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	lease, err := s.get(ctx, name)
	switch {
	case isMissing(err):
		return record.Record{}, "", nil
	case err != nil:
		return record.Record{}, "", s.failed("get", name, err)
	}
	return recordOf(lease), lease.ResourceVersion, nil
}

func (s *store) get(ctx context.Context, name string) (*coordination.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestMax)
	defer cancel()
	lease := &coordination.Lease{}
	err := s.client.Get().MaxRetries(0).Namespace(s.namespace).Resource(resource).Name(object(name)).Do(ctx).Into(lease)
	if err != nil {
		return nil, err
	}
	s.keep("get", name, lease)
	return lease, nil
}

// Write updates the Lease with the version that was read, or creates it.
func (s *store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	lease, err := s.base(ctx, name, version)
	if err != nil {
		return "", err
	}
	if err := refused(lease, r); err != nil {
		return "", fmt.Errorf("kubernetes: write Lease %s: %w", s.path(name), err)
	}
	before, was := recordOf(lease), markOf(&lease.Spec).Holder
	if err := put(lease, name, r, s.labels, s.now()); err != nil {
		return "", fmt.Errorf("kubernetes: write Lease %s: %w", s.path(name), err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestMax)
	defer cancel()
	request, verb := s.client.Post(), "create"
	if version != "" {
		request, verb = s.client.Put().Name(lease.Name), "update"
	}
	written := &coordination.Lease{}
	err = request.MaxRetries(0).Namespace(s.namespace).Resource(resource).Body(lease).Do(ctx).Into(written)
	switch {
	case err == nil:
		s.keep(verb, name, written)
		if !s.silent {
			s.announce(written, changes(before, r, was, markOf(&lease.Spec).Holder))
		}
		return written.ResourceVersion, nil
	case api.IsConflict(err), api.IsAlreadyExists(err), version != "" && isMissing(err):
		return "", fmt.Errorf("kubernetes: %s Lease %s: %w", verb, s.path(name), record.ErrConflict)
	}
	return "", s.failed(verb, name, err)
}

// refused returns an error for a change that cannot be made to a Lease of other clients.
func refused(lease *coordination.Lease, r record.Record) error {
	if strategy := lease.Spec.Strategy; strategy != nil && *strategy != "" {
		return election.Permanent(fmt.Errorf("its holder is chosen by the control plane (strategy %s); use another name", *strategy))
	}
	if holder := markOf(&lease.Spec).Holder; r.Request != nil && r.Holder == holder && holder != "" {
		return fmt.Errorf("%q uses client-go, which honours no requests; end its process to make it give up: %w",
			holder, errors.ErrUnsupported)
	}
	return nil
}

// base returns a copy of the Lease with that version, for the caller to change
// (kubernetes-G6). It was usually read just before.
func (s *store) base(ctx context.Context, name, version string) (*coordination.Lease, error) {
	if version == "" {
		return &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: object(name), Namespace: s.namespace}}, nil
	}
	s.mu.Lock()
	lease := s.known[name]
	s.mu.Unlock()
	if lease == nil || lease.ResourceVersion != version {
		var err error
		if lease, err = s.get(ctx, name); err != nil && !isMissing(err) {
			return nil, s.failed("get", name, err)
		}
	}
	if lease == nil || lease.ResourceVersion != version {
		return nil, fmt.Errorf("kubernetes: update Lease %s: %w", s.path(name), record.ErrConflict)
	}
	return lease.DeepCopy(), nil
}

// keep remembers the latest Lease.
func (s *store) keep(verb, name string, lease *coordination.Lease) {
	s.served.Store(verb, true)
	s.served.Store("get", true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[name] == nil && len(s.known) >= knownMax {
		for other := range s.known {
			delete(s.known, other) // any one: it is read again when needed
			break
		}
	}
	s.known[name] = lease
}

// Names lists the elections whose Leases have our label.
func (s *store) Names(ctx context.Context) ([]string, error) {
	var names []string
	for next := ""; ; {
		list, err := s.page(ctx, next)
		if err != nil {
			return nil, s.failed("list", "", err)
		}
		for i := range list.Items {
			if name, ok := electionOf(&list.Items[i]); ok {
				names = append(names, name)
			}
		}
		if next = list.Continue; next == "" {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
	}
}

func (s *store) page(ctx context.Context, next string) (*coordination.LeaseList, error) {
	ctx, cancel := context.WithTimeout(ctx, requestMax)
	defer cancel()
	list := &coordination.LeaseList{}
	options := &meta.ListOptions{LabelSelector: label, Limit: pageMax, Continue: next}
	err := s.client.Get().MaxRetries(0).Namespace(s.namespace).Resource(resource).
		VersionedParams(options, parameter).Do(ctx).Into(list)
	return list, err
}

// electionOf returns the election of a Lease.
func electionOf(lease *coordination.Lease) (string, bool) {
	if name := noteOf(lease).Election; object(name) == lease.Name {
		return name, true
	}
	return nameOf(lease.Name)
}

func (s *store) path(name string) string { return s.namespace + "/" + object(name) }

// isMissing reports whether an API server says that the object or the namespace does not
// exist. A 404 alone does not: a proxy without a server behind it answers everything with
// 404, and so does a server that does not serve Leases yet.
func isMissing(err error) bool {
	return api.IsNotFound(err) && !api.HasStatusCause(err, meta.CauseTypeUnexpectedServerResponse)
}

// failed returns an error that says what was being done, and what to do about it if that is
// known.
func (s *store) failed(verb, name string, err error) error {
	what := "Leases in " + s.namespace
	if name != "" {
		what = "Lease " + s.path(name)
	}
	text, served := fmt.Errorf("kubernetes: %s %s: %w", verb, what, err), "get"
	switch {
	case api.IsUnauthorized(err):
		text = fmt.Errorf("%w; the credentials are refused: see what kubectl auth whoami says with the same kubeconfig", text)
	case api.IsForbidden(err):
		text = fmt.Errorf("%w; bind a Role that allows get, create, update, watch and list of leases in coordination.k8s.io", text)
		if name != "" { // a list is not of a candidate
			served = verb
		}
	case isMissing(err):
		text = fmt.Errorf("%w; create the namespace first", text)
	case api.IsInvalid(err), api.IsBadRequest(err):
	default:
		return text
	}
	// An API server that is starting may refuse what it allows a moment later, and a
	// deleted namespace may be created again.
	if _, before := s.served.Load(served); before {
		return text
	}
	return election.Permanent(text)
}
