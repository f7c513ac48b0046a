//go:build linux && applications

package applications

import (
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// patience is how long a program may take for one step: its start, for instance.
const patience = 3 * time.Minute

// A scene is an ensemble of three servers, and what it has done so far.
type scene struct {
	t        *testing.T
	ensemble *servers.Ensemble
	began    time.Time
	spent    time.Duration // CPU time of servers that have ended
	packets  float64       // that those servers have received
}

// newScene starts the ensemble for a test; config are additional lines of zoo.cfg.
func newScene(t *testing.T, config ...string) *scene {
	t.Helper()
	return newSceneWith(t, nil, config...)
}

// newSceneWith also sets properties of Java, such as that which names a JAAS file.
func newSceneWith(t *testing.T, properties map[string]string, config ...string) *scene {
	t.Helper()
	kind, err := servers.Chosen("APPLICATIONS_SERVER")
	must(t, err)
	must(t, kind.Install(t.Context()))
	e, err := servers.NewEnsemble(t.Context(), servers.EnsembleOptions{Kinds: []servers.Kind{kind, kind, kind},
		Config:     append([]string{"tickTime=1000", "initLimit=10", "syncLimit=4", "maxClientCnxns=0"}, config...),
		Properties: properties, StartWithin: patience})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.LogTails(4000))
		}
		must(t, e.Close())
	})
	must(t, e.Start(t.Context()))
	return &scene{t: t, ensemble: e, began: time.Now()}
}

// addrs returns the connect string.
func (s *scene) addrs() string { return s.ensemble.Addrs() }

// end ends a server, and keeps its figures.
func (s *scene) end(m *servers.Member, how func(*servers.Member) error) {
	s.t.Helper()
	cpu, err := m.Server().CPU()
	must(s.t, err)
	s.spent += cpu
	if metrics, err := servers.Metrics(m.Addr); err == nil { // without a quorum it serves none
		s.packets += metrics["zk_packets_received"]
	}
	must(s.t, how(m))
}

// killLeader kills the leader with SIGKILL, waits for the next one, and starts the killed one again.
func (s *scene) killLeader() {
	s.t.Helper()
	s.killLeaderAnd(func() {
		_, err := s.ensemble.AwaitLeader(s.t.Context())
		must(s.t, err)
	})
}

// killLeaderAnd kills the leader with SIGKILL, does something before anything else, and starts it again.
func (s *scene) killLeaderAnd(f func()) {
	s.t.Helper()
	leader, err := s.ensemble.AwaitLeader(s.t.Context())
	must(s.t, err)
	s.end(leader, (*servers.Member).Kill)
	f()
	must(s.t, leader.Start(s.t.Context()))
}

// restartAll stops and starts the servers one after the other, as an operator does for an upgrade, and
// calls progress after each of the two.
func (s *scene) restartAll(progress func()) {
	s.t.Helper()
	for _, m := range s.ensemble.Members {
		s.end(m, (*servers.Member).Stop)
		progress()
		must(s.t, m.Start(s.t.Context()))
		_, err := s.ensemble.AwaitLeader(s.t.Context())
		must(s.t, err)
		progress()
	}
}

// step logs how long a part of the test took.
func (s *scene) step(what string, f func()) {
	s.t.Helper()
	began := time.Now()
	f()
	s.t.Logf("%-60s %6.1f s", what, time.Since(began).Seconds())
}

// figures logs what the servers have to say of an application.
func (s *scene) figures(when string) {
	s.t.Helper()
	var connections, znodes, watches float64
	packets := s.packets
	for _, m := range s.ensemble.Members {
		metrics, err := servers.Metrics(m.Addr)
		must(s.t, err)
		connections += metrics["zk_num_alive_connections"]
		znodes = max(znodes, metrics["zk_znode_count"])
		watches += metrics["zk_watch_count"]
		packets += metrics["zk_packets_received"]
	}
	cpu, err := s.ensemble.CPU()
	must(s.t, err)
	s.t.Logf("%s, on %s: %.0f connections, %.0f znodes, %.0f watches, %.0f packets received, CPU time of the servers %.2f s in %.0f s",
		when, s.ensemble.Members[0].Kind.Name(), connections, znodes, watches, packets, (s.spent + cpu).Seconds(), time.Since(s.began).Seconds())
}

// The servers' lines about sessions that have expired, Conclave's and Apache's, and the clients' about sessions that
// they have.
var (
	expiredLine = regexp.MustCompile(`(?:"session expired" session=|Expiring session )(0x[0-9a-f]+)`)
	sessionLine = regexp.MustCompile(`session id = (0x[0-9a-f]+)`)
)

// checkExpired checks that sessions of programs that were killed have expired, and none of those of the given programs.
func (s *scene) checkExpired(alive ...*program) {
	s.t.Helper()
	expired := map[string]bool{}
	for _, member := range s.ensemble.Members {
		for _, match := range expiredLine.FindAllStringSubmatch(member.Log(), -1) {
			expired[match[1]] = true
		}
	}
	if len(expired) == 0 {
		s.t.Error("the servers have logged no session that has expired")
	}
	for _, p := range alive {
		text, err := os.ReadFile(p.log)
		must(s.t, err)
		for _, match := range sessionLine.FindAllStringSubmatch(string(text), -1) {
			if expired[match[1]] {
				s.t.Errorf("session %s of %s has expired", match[1], p.name)
			}
		}
	}
}

// until waits until a condition holds, for as long as a program may take for a step. It looks seldom, for
// the programs need the processors.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	eventually(t, what, func() error {
		if !condition() {
			return errNotYet
		}
		return nil
	})
}

var errNotYet = errors.New("not yet")

// eventually is until for a condition that says what is missing.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s: %v", patience, what, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
