package kubernetes

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// diary keeps the Events that an API server was given.
type diary struct {
	mu     sync.Mutex
	events []happening
	wrote  chan struct{} // receives once for each Event
}

// keep makes the server accept Events, and calls first, if it is not nil, to answer each.
func (d *diary) keep(a *apiServer, first func(http.ResponseWriter) bool) {
	d.wrote = make(chan struct{}, 100)
	a.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/v1/namespaces/default/events" {
			return false
		}
		var h happening
		if err := json.NewDecoder(r.Body).Decode(&h); err != nil || r.Method != http.MethodPost {
			reply(w, http.StatusBadRequest, "BadRequest")
			return true
		}
		d.mu.Lock()
		d.events = append(d.events, h)
		d.mu.Unlock()
		d.wrote <- struct{}{}
		if first == nil || !first(w) {
			w.WriteHeader(http.StatusCreated)
			answer(w, h)
		}
		return true
	}
}

// texts waits for n Events and returns their messages, sorted, because each is sent by its
// own goroutine.
func (d *diary) texts(t *testing.T, n int) []string {
	t.Helper()
	for range n {
		select {
		case <-d.wrote:
		case <-time.After(time.Minute):
			t.Fatalf("fewer than %d events in a minute", n)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var texts []string
	for _, h := range d.events {
		texts = append(texts, h.Message)
	}
	d.events = nil
	slices.Sort(texts)
	return texts
}

// led returns a record of a holder with a history.
func led(holder, nonce string, token election.Token, history ...election.Tenure) record.Record {
	return record.Record{Holder: holder, Nonce: nonce, Token: token, LeaseMs: 10_000, Heartbeat: uint64(token), History: history}
}

func TestEventsTellWhoLeadsAndWhyOneStopped(t *testing.T) {
	a, d := newAPIServer(t), &diary{}
	d.keep(a, nil)
	s := openWith(t, a, Options{})
	now := time.Now()
	anna := election.Tenure{Leader: "anna", Token: 7, Since: now}
	version := write(t, s, "demo", led("anna", "n1", 7, anna), "")
	if got := d.texts(t, 1); !slices.Equal(got, []string{"anna_n1 became leader with token 7"}) {
		t.Errorf("%q", got)
	}
	renewed := led("anna", "n1", 7, anna)
	renewed.Heartbeat++
	version = write(t, s, "demo", renewed, version) // which changes nothing worth an Event
	anna.Until, anna.Reason = now, "expired"
	bert := election.Tenure{Leader: "bert", Token: 8, Since: now}
	version = write(t, s, "demo", led("bert", "n2", 8, anna, bert), version)
	if got := d.texts(t, 2); !slices.Equal(got, []string{"anna_n1 stopped leading (expired)", "bert_n2 became leader with token 8"}) {
		t.Errorf("%q", got)
	}
	bert.Until, bert.Reason = now, "resigned"
	write(t, s, "demo", record.Record{Token: 8, Heartbeat: 9, History: []election.Tenure{anna, bert}}, version)
	if got := d.texts(t, 1); !slices.Equal(got, []string{"bert_n2 stopped leading (resigned)"}) {
		t.Errorf("%q", got)
	}
}

func TestEventIsAboutTheLease(t *testing.T) {
	a, d := newAPIServer(t), &diary{}
	d.keep(a, nil)
	s := openWith(t, a, Options{})
	long := strings.Repeat("long-name.", 25) + "a" // 251 characters, a name that an object may have
	write(t, s, long, led("anna", "n1", 7), "")
	<-d.wrote
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.events[0]
	if h.InvolvedObject.Kind != "Lease" || h.InvolvedObject.APIVersion != coordination.SchemeGroupVersion.String() ||
		h.InvolvedObject.Name != long || h.InvolvedObject.Namespace != "default" || h.Namespace != "default" {
		t.Errorf("%+v", h.InvolvedObject)
	}
	if h.Type != "Normal" || h.Reason != "LeaderElection" || h.Count != 1 || h.FirstTimestamp.IsZero() || len(h.Name) > 253 {
		t.Errorf("%+v", h)
	}
}

func TestHolderOfClientGoIsNamedAsItNamesItself(t *testing.T) {
	got := changes(record.Record{Holder: "web-1_x", Nonce: "f"}, led("anna", "n1", 7), "web-1_x", "anna_n1")
	if !slices.Equal(got, []string{"web-1_x stopped leading (unknown)", "anna_n1 became leader with token 7"}) {
		t.Errorf("%q", got)
	}
}

func TestNoElectionWaitsForAnEvent(t *testing.T) {
	hang := make(chan struct{})
	for name, first := range map[string]func(http.ResponseWriter) bool{
		"silent":  func(http.ResponseWriter) bool { <-hang; return true },
		"refused": func(w http.ResponseWriter) bool { reply(w, http.StatusForbidden, "Forbidden"); return true },
	} {
		a, d := newAPIServer(t), &diary{}
		d.keep(a, first)
		s := openWith(t, a, Options{})
		version := ""
		for token := range election.Token(2 * eventsOpenMax) {
			r := led("anna", string(rune('a'+token)), token+1)
			version = write(t, s, "demo", r, version) // fails after the deadline of a request
		}
		<-d.wrote
		began := time.Now()
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); name == "silent" && took < eventCloseMax || took > eventMax {
			t.Errorf("%s: closing took %v", name, took)
		}
		d.mu.Lock()
		if got := len(d.events); name == "silent" && got > eventsOpenMax {
			t.Errorf("%d events on their way", got)
		}
		d.mu.Unlock()
		if name == "silent" {
			close(hang)
		}
	}
}

func TestEventOfTheLastReleaseOutlivesTheElection(t *testing.T) {
	a, d := newAPIServer(t), &diary{}
	release := make(chan struct{})
	d.keep(a, func(http.ResponseWriter) bool { <-release; return false })
	s := openWith(t, a, Options{})
	write(t, s, "demo", led("anna", "n1", 7), "")
	<-d.wrote
	closed := make(chan error, 1)
	go func() { closed <- s.close() }()
	<-s.done // it is closing now, and waits
	close(release)
	if err := <-closed; err != nil || s.eventsCtx.Err() == nil {
		t.Errorf("%v, %v", err, s.eventsCtx.Err())
	}
}

func TestEventsCanBeTurnedOff(t *testing.T) {
	a := newAPIServer(t)
	s, err := newStore(a.config(), Options{NoEvents: true})
	if err != nil {
		t.Fatal(err)
	}
	write(t, s, "demo", led("anna", "n1", 7), "")
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if got := a.count("POST /api/v1/"); got != 0 {
		t.Errorf("%d events", got)
	}
	_, options, err := parse("kubernetes://web?events=off&kubeconfig=" + writeKubeconfig(t))
	if err != nil || !options.NoEvents {
		t.Errorf("%+v %v", options, err)
	}
}
