package kubernetes

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// apiServer is as much of an API server as Leases need: versions that grow across
// all objects, conflicts, and watches that start after a version.
type apiServer struct {
	*httptest.Server
	// put, if not nil, is called with each Lease that is created or updated.
	put func(*coordination.Lease)

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, with every change
	version  int
	leases   map[string]coordination.Lease // by namespace/name
	log      []logged                      // for watches
	oldest   int                           // versions before it are forgotten
	requests []string                      // the method and path of each
	// refuse, if not nil, may answer a request itself, and then returns true.
	refuse func(http.ResponseWriter, *http.Request) bool
	// drop is the number of changes that are made but not answered.
	drop int
}

type logged struct {
	kind  string
	lease coordination.Lease
}

// newAPI returns an API server without a port.
func newAPI() *apiServer {
	return &apiServer{changed: make(chan struct{}), version: 100, leases: map[string]coordination.Lease{}}
}

func newAPIServer(t testing.TB) *apiServer {
	a := newAPI()
	a.Server = httptest.NewServer(a)
	t.Cleanup(func() {
		a.CloseClientConnections() // ends watches
		a.Close()
	})
	return a
}

func (a *apiServer) config() *rest.Config { return &rest.Config{Host: a.URL} }

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.requests = append(a.requests, r.Method+" "+r.URL.Path)
	refuse := a.refuse
	a.mu.Unlock()
	if refuse != nil && refuse(w, r) {
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/apis/coordination.k8s.io/v1/namespaces/")
	namespace, rest, _ := strings.Cut(path, "/")
	name := strings.TrimPrefix(strings.TrimPrefix(rest, "leases"), "/")
	switch {
	case !ok:
		reply(w, http.StatusNotFound, "NotFound")
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		a.watch(w, r, namespace)
	case r.Method == http.MethodGet && name == "":
		a.list(w, r, namespace)
	case r.Method == http.MethodGet:
		a.mu.Lock()
		lease, found := a.leases[namespace+"/"+name]
		a.mu.Unlock()
		if !found {
			reply(w, http.StatusNotFound, "NotFound")
			return
		}
		answer(w, lease)
	default:
		a.change(w, r, namespace, name)
	}
}

// change creates, updates or deletes a Lease.
func (a *apiServer) change(w http.ResponseWriter, r *http.Request, namespace, name string) {
	var lease coordination.Lease
	if r.Method != http.MethodDelete {
		if err := json.NewDecoder(r.Body).Decode(&lease); err != nil || lease.Name == "" {
			reply(w, http.StatusBadRequest, "BadRequest")
			return
		}
		if s := lease.Spec.LeaseDurationSeconds; s != nil && *s <= 0 {
			reply(w, http.StatusUnprocessableEntity, "Invalid")
			return
		}
		name = lease.Name
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	stored, exists := a.leases[namespace+"/"+name]
	switch {
	case r.Method == http.MethodPost && exists:
		reply(w, http.StatusConflict, "AlreadyExists")
		return
	case r.Method != http.MethodPost && !exists:
		reply(w, http.StatusNotFound, "NotFound")
		return
	case r.Method == http.MethodPut && stored.ResourceVersion != lease.ResourceVersion:
		reply(w, http.StatusConflict, "Conflict")
		return
	}
	kind := map[string]string{http.MethodPost: "ADDED", http.MethodPut: "MODIFIED", http.MethodDelete: "DELETED"}[r.Method]
	a.version++
	if kind == "DELETED" {
		lease = stored
		delete(a.leases, namespace+"/"+name)
	}
	lease.Namespace, lease.ResourceVersion = namespace, strconv.Itoa(a.version)
	lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
	if kind != "DELETED" {
		a.leases[namespace+"/"+name] = lease
		if a.put != nil {
			a.put(&lease)
		}
	}
	a.log = append(a.log, logged{kind, lease})
	close(a.changed)
	a.changed = make(chan struct{})
	if a.drop > 0 {
		a.drop--
		panic(http.ErrAbortHandler)
	}
	answer(w, lease)
}

// forget makes all versions up to now unknown to watches.
func (a *apiServer) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log, a.oldest = nil, a.version
}

// restore takes everything back to an older copy, in which one Lease has the
// version or, if that is empty, is absent, and ends all watches.
func (a *apiServer) restore(key, version string) {
	a.mu.Lock()
	lease := a.leases[key]
	a.leases = map[string]coordination.Lease{}
	a.version, a.log, a.oldest = 1000, nil, 0
	if lease.ResourceVersion = version; version != "" {
		a.leases[key] = lease
	}
	a.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
		tooLarge := r.URL.Query().Get("watch") != "" && from > a.version
		if tooLarge {
			reply(w, http.StatusGatewayTimeout, "Timeout")
		}
		return tooLarge
	}
	a.mu.Unlock()
	a.CloseClientConnections()
}

func (a *apiServer) list(w http.ResponseWriter, r *http.Request, namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for key, lease := range a.leases {
		_, labelled := lease.Labels[r.URL.Query().Get("labelSelector")]
		if strings.HasPrefix(key, namespace+"/") && labelled && key > r.URL.Query().Get("continue") {
			names = append(names, key)
		}
	}
	slices.Sort(names)
	list := coordination.LeaseList{TypeMeta: meta.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"}}
	for _, key := range names[:min(2, len(names))] { // small pages, whatever was asked for
		list.Items = append(list.Items, a.leases[key])
		if len(names) > 2 {
			list.Continue = key
		}
	}
	answer(w, list)
}

// watch sends what comes after the version, or without one, what is there.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, namespace string) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	a.mu.Lock()
	if from == 0 {
		if lease, ok := a.leases[namespace+"/"+name]; ok {
			event(w, "ADDED", lease)
		}
		from = a.version
	} else if from < a.oldest {
		a.mu.Unlock()
		event(w, "ERROR", meta.Status{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: meta.StatusFailure, Reason: meta.StatusReasonExpired, Code: http.StatusGone})
		return
	}
	for {
		for _, e := range a.log {
			version, _ := strconv.Atoi(e.lease.ResourceVersion)
			if version > from && e.lease.Namespace == namespace && e.lease.Name == name {
				event(w, e.kind, e.lease)
				from = version
			}
		}
		changed := a.changed
		a.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		a.mu.Lock()
	}
}

func event(w http.ResponseWriter, kind string, object any) {
	text, _ := json.Marshal(map[string]any{"type": kind, "object": object})
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "%s\n", text)
}

func answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}

func reply(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(meta.Status{TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: meta.StatusFailure, Reason: meta.StatusReason(reason), Code: int32(code), Message: reason})
}

// count returns the number of requests with a prefix.
func (a *apiServer) count(prefix string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	total := 0
	for _, r := range a.requests {
		if strings.HasPrefix(r, prefix) {
			total++
		}
	}
	return total
}

// delete removes a Lease as kubectl does.
func (a *apiServer) delete(t testing.TB, name string) {
	t.Helper()
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete,
		a.URL+"/apis/coordination.k8s.io/v1/namespaces/default/leases/"+name, nil)
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(response, err)
	}
	response.Body.Close()
}
