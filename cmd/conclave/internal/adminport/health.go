package adminport

import (
	"net/http"

	"github.com/conclave-project/conclave/internal/server"
)

// health is the answer to a supervisor's check.
type health struct {
	OK    bool        `json:"ok"`
	Why   []string    `json:"why,omitempty"` // what is wrong, if not OK
	State server.Mode `json:"state"`
	// LeaderSilentMs is the time since the leader's last message, in milliseconds; 0 on a
	// server that follows no leader.
	LeaderSilentMs int64 `json:"leader_silent_ms"`
}

// checks are the health checks by path. Each one asks the loop of the server. If the loop
// hangs, the time limit of the port ends the request.
var checks = map[string]func(*server.Server) health{
	"livez":   func(s *server.Server) health { return look(s, ends) },
	"readyz":  func(s *server.Server) health { return look(s, ends, idles) },
	"healthz": func(s *server.Server) health { return look(s, ends, idles, fails) },
}

// HealthPaths returns the paths of the health checks.
func HealthPaths() (paths []string) {
	for name := range checks {
		paths = append(paths, "/"+name)
	}
	return paths
}

// look collects what is wrong.
func look(s *server.Server, wrongs ...func(*server.Status) []string) health {
	st := s.Status()
	h := health{State: st.Mode}
	if st.Mode == server.ModeFollower || st.Mode == server.ModeObserver {
		h.LeaderSilentMs = st.LeaderSilent.Milliseconds()
	}
	for _, wrong := range wrongs {
		h.Why = append(h.Why, wrong(&st)...)
	}
	h.OK = len(h.Why) == 0
	return h
}

// ends returns what is wrong with a server that should be restarted.
func ends(st *server.Status) []string {
	if st.Ended {
		return []string{"the server is stopping"}
	}
	return nil
}

// idles returns what is wrong with a server that should get no clients now.
func idles(st *server.Status) []string {
	switch st.Mode {
	case server.ModeLooking:
		return []string{"it follows no leader with a quorum, and serves no client"}
	case server.ModeReadOnly:
		return []string{"it follows no leader with a quorum, and clients may only read"}
	}
	return nil
}

// fails returns what is wrong with a server that an operator should look at.
func fails(st *server.Status) (why []string) {
	if st.DiskFull {
		why = append(why, "the disk is full")
	}
	if st.Counts.DigestMismatches > 0 {
		why = append(why, "its tree differed from the leader's, see the log")
	}
	return why
}

// tell writes the result, with the HTTP status that supervisors evaluate.
func tell(w http.ResponseWriter, h health) {
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	text, err := encode(h)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	write(w, status, text)
}
