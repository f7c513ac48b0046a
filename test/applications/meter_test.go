//go:build linux && applications

package applications

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// A meter counts what the servers of a scene do for an application, across their restarts.
type meter struct {
	*scene
	began    time.Time
	cpu      time.Duration // of processes that have ended
	requests float64       // as above
	steps    []string
}

func newMeter(s *scene) *meter { return &meter{scene: s, began: time.Now()} }

// step notes how long a step of the test took.
func (m *meter) step(name string, f func()) {
	m.t.Helper()
	began := time.Now()
	f()
	m.steps = append(m.steps, fmt.Sprintf("%s %.1fs", name, time.Since(began).Seconds()))
}

// count adds what a server has done, before it ends.
func (m *meter) count(member *servers.Member) {
	m.t.Helper()
	cpu, err := member.Server().CPU()
	must(m.t, err)
	m.cpu += cpu
	metrics, err := servers.Metrics(member.Addr)
	must(m.t, err)
	m.requests += metrics["zk_packets_received"]
}

// killLeader is scene.killLeader.
func (m *meter) killLeader() {
	m.t.Helper()
	leader, err := m.ensemble.AwaitLeader(m.t.Context())
	must(m.t, err)
	m.count(leader)
	m.scene.killLeader()
}

// restartAll stops and starts the servers in turn.
func (m *meter) restartAll() {
	m.t.Helper()
	for _, member := range m.ensemble.Members {
		m.count(member)
		must(m.t, member.Stop())
		must(m.t, member.Start(m.t.Context()))
		_, err := m.ensemble.AwaitLeader(m.t.Context())
		must(m.t, err)
	}
}

// The servers' lines about sessions that have expired, Conclave's and Apache's, and the clients' about sessions that
// they have.
var (
	expiredLine = regexp.MustCompile(`(?:"session expired" session=|Expiring session )(0x[0-9a-f]+)`)
	sessionLine = regexp.MustCompile(`session id = (0x[0-9a-f]+)`)
)

// checkExpired checks that sessions of programs that were killed have expired, and none of those of the given programs.
func (m *meter) checkExpired(alive ...*program) {
	m.t.Helper()
	expired := map[string]bool{}
	for _, member := range m.ensemble.Members {
		for _, match := range expiredLine.FindAllStringSubmatch(member.Log(), -1) {
			expired[match[1]] = true
		}
	}
	if len(expired) == 0 {
		m.t.Error("the servers have logged no session that has expired")
	}
	for _, p := range alive {
		text, err := os.ReadFile(p.log)
		must(m.t, err)
		for _, match := range sessionLine.FindAllStringSubmatch(string(text), -1) {
			if expired[match[1]] {
				m.t.Errorf("session %s of %s has expired", match[1], p.name)
			}
		}
	}
}

// log prints the figures.
func (m *meter) log(application string) {
	m.t.Helper()
	var sessions, znodes, watches float64
	for _, member := range m.ensemble.Members {
		metrics, err := servers.Metrics(member.Addr)
		must(m.t, err)
		sessions += metrics["zk_num_alive_connections"]
		znodes = max(znodes, metrics["zk_znode_count"])
		watches += metrics["zk_watch_count"]
		m.requests += metrics["zk_packets_received"]
	}
	cpu, err := m.ensemble.CPU()
	must(m.t, err)
	m.t.Logf("%s on three servers of %s: %s", application, m.ensemble.Members[0].Kind.Name(), strings.Join(m.steps, ", "))
	m.t.Logf("%.0f connections, %.0f znodes, %.0f watches, %.0f packets received, %.2f s of CPU time in %.0f s",
		sessions, znodes, watches, m.requests, (m.cpu + cpu).Seconds(), time.Since(m.began).Seconds())
}

// A driver is a program in the directory java that does an application's work and takes commands.
type driver struct {
	*program
	port string
}

// newDriver starts a driver and waits until it takes commands.
func newDriver(p *program) *driver {
	p.t.Helper()
	return &driver{p, p.await(`takes commands at port (\d+)`)[1]}
}

// ask sends a command and returns the answer, which is to be one line.
func (d *driver) ask(command string) string {
	d.t.Helper()
	answer := d.try(command)
	if strings.HasPrefix(answer, "error: ") {
		d.t.Fatalf("%s: %s: %s", d.name, command, answer)
	}
	return answer
}

// try is like ask, for a command that may fail.
func (d *driver) try(command string) string {
	d.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+d.port)
	must(d.t, err)
	defer conn.Close()
	must(d.t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintln(conn, command)
	must(d.t, err)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	must(d.t, err)
	return strings.TrimSpace(answer)
}

// numbers reads an answer of numbers.
func numbers(t *testing.T, answer string) []int {
	t.Helper()
	var all []int
	for field := range strings.FieldsSeq(answer) {
		var n int
		if _, err := fmt.Sscan(field, &n); err != nil {
			t.Fatalf("%q in %q is no number", field, answer)
		}
		all = append(all, n)
	}
	return all
}

// until polls a condition of an application: a start of many JVMs may take longer than awaittest.Until waits.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); !condition(); <-poll.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// refuse checks that the program, which still runs, has printed none of the texts.
func (p *program) refuse(texts ...string) {
	p.t.Helper()
	log, err := os.ReadFile(p.log)
	must(p.t, err)
	select {
	case <-p.ended:
		p.t.Errorf("%s has ended", p.name)
	default:
	}
	for _, bad := range texts {
		if strings.Contains(string(log), bad) {
			p.t.Errorf("%s has printed %q", p.name, bad)
		}
	}
}
