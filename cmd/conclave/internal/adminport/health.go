package adminport

import (
	"net/http"

	"github.com/conclave-project/conclave/internal/server"
)

// health is what a supervisor is told of a server.
type health struct {
	OK    bool        `json:"ok"`
	Why   []string    `json:"why,omitempty"` // what is wrong, if it is not
	State server.Mode `json:"state"`
	// LeaderSilentMs is how long ago the leader's last message came, in milliseconds; 0 on
	// a server that follows none.
	LeaderSilentMs int64 `json:"leader_silent_ms"`
}

// checks are the questions, by their path. Each one asks the loop of the server, which does
// not answer if it hangs: then the time limit of the port does.
var checks = map[string]func(*server.Server) health{
	"livez":   func(s *server.Server) health { return look(s, ends) },
	"readyz":  func(s *server.Server) health { return look(s, ends, idles) },
	"healthz": func(s *server.Server) health { return look(s, ends, idles, fails) },
}

// look gathers what is wrong.
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

// ends is wrong with a server that is not alive: it should be started again.
func ends(st *server.Status) []string {
	if st.Ended {
		return []string{"the server is stopping"}
	}
	return nil
}

// idles is wrong with a server that should get no clients now.
func idles(st *server.Status) []string {
	switch st.Mode {
	case server.ModeLooking:
		return []string{"it follows no leader with a quorum, and serves no client"}
	case server.ModeReadOnly:
		return []string{"it follows no leader with a quorum, and clients may only read"}
	}
	return nil
}

// fails is wrong with a server that an operator should look at.
func fails(st *server.Status) (why []string) {
	if st.DiskFull {
		why = append(why, "the disk is full")
	}
	if st.Counts.DigestMismatches > 0 {
		why = append(why, "its tree differed from the leader's, see the log")
	}
	return why
}

// tell writes it, with the status that supervisors look at.
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
