// Package probe answers the probes of an orchestrator: whether a candidate of an election is
// alive, is ready, or leads.
//
// Handler makes an http.Handler from an Elector and a Rule. It asks no store and waits for
// nothing: the answer is what the candidate itself knows at that moment, by its own clock. A
// process that was frozen does not answer that it leads once its time is over.
//
//	mux.Handle("/livez", probe.Handler(elector, probe.Alive))
//	mux.Handle("/readyz", probe.Handler(elector, probe.Campaigns))
//	mux.Handle("/leaderz", probe.Handler(elector, probe.Leads))
//
// A probe is not a fence: by the time a client reads that a candidate leads, that may no longer
// be true.
package probe

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/conclave-project/conclave/election"
)

// Rule reports whether a probe passes. A probe that passes is answered with 200 OK, one that
// fails with 503 Service Unavailable.
type Rule func(election.Status) bool

// Leads passes while the candidate leads: use it to route traffic that is for the leader alone.
func Leads(s election.Status) bool { return s.State == election.StateLeading }

// Campaigns passes while the candidate leads or waits to lead. It fails before Run is called and
// after it has returned, while the candidate is unhealthy, and while a leadership ends.
func Campaigns(s election.Status) bool {
	return s.State == election.StateLeading || s.State == election.StateWaiting
}

// Alive fails only if the function of a leadership has not ended in time: only ending the process
// helps then. A store that cannot be reached is no reason to restart a process, and neither is a
// Run that has returned.
func Alive(s election.Status) bool { return s.State != election.StateStuck }

// Answer is what a Handler writes, as JSON. Fields may be added.
type Answer struct {
	Election string `json:"election"`
	ID       string `json:"id"`
	// State is stopped, waiting, unhealthy, leading, ending, lost or stuck; see
	// election.State.
	State string `json:"state"`
	// Since is when the state was entered, by the wall clock of this machine, and ForMs how long
	// ago that is. Since is absent before Run was called.
	Since time.Time `json:"since,omitzero"`
	ForMs int64     `json:"forMs"`
	// Token is the leadership's token until it is released, else absent.
	Token uint64 `json:"token,omitempty"`
	// LeaseMs is how long the store keeps others out after a renewal, and LeaseLeftMs how much of
	// that is left, less the margin for clocks. Absent without a leadership.
	LeaseMs     int64 `json:"leaseMs,omitempty"`
	LeaseLeftMs int64 `json:"leaseLeftMs,omitempty"`
	// Reason is why the leadership ends or has ended, absent while it lasts.
	Reason string `json:"reason,omitempty"`
	// Error is the last failure of the store or of the health check, if any.
	Error string `json:"error,omitempty"`
}

// Handler answers GET and HEAD with an Answer, and with status 200 or 503 according to the rule.
func Handler(elector *election.Elector, rule Rule) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "a probe is read with GET", http.StatusMethodNotAllowed)
			return
		}
		status := elector.Status()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if !rule(status) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if r.Method == http.MethodGet {
			_ = json.NewEncoder(w).Encode(answer(elector, status)) // fails if the prober is gone
		}
	})
}

func answer(elector *election.Elector, s election.Status) Answer {
	lead := s.Leadership
	a := Answer{
		Election: elector.Name(), ID: elector.ID(), State: s.State.String(), Since: s.Since,
		Token: uint64(lead.Token()), LeaseMs: lead.Lease().Milliseconds(), LeaseLeftMs: lead.Remaining().Milliseconds(),
	}
	if !s.Since.IsZero() {
		a.ForMs = max(0, time.Since(s.Since).Milliseconds())
	}
	if s.Reason != 0 {
		a.Reason = s.Reason.String()
	}
	if s.Err != nil {
		a.Error = s.Err.Error()
	}
	return a
}
