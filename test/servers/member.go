//go:build linux

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A Member is one server of an ensemble: its id, its ports and its directory, whichever
// program runs there. It is safe for concurrent use, except the methods that start and end
// it.
type Member struct {
	ID int

	// Kind is the kind that Launch starts; change it only while the member is down.
	Kind Kind

	// Observer means that it has no vote.
	Observer bool

	// Addr is the client address.
	Addr string

	// Dir contains zoo.cfg, the data directory and the log of the process.
	Dir string

	// Disk, if set, controls the process's syncs.
	Disk *Disk

	ensemble                             *Ensemble
	clientPort, quorumPort, electionPort int
	links                                map[int]link // by peer, if proxied

	mu     sync.Mutex
	server *Server // nil while down
}

// A link is the ports under which one server reaches another.
type link struct{ quorum, election int }

// DataDir returns the member's data directory.
func (m *Member) DataDir() string { return filepath.Join(m.Dir, "data") }

func (m *Member) oracleFile() string { return filepath.Join(m.Dir, "oracle") }

// Says makes the oracle of an ensemble with EnsembleOptions.Oracle permit, or not permit,
// the member to continue alone.
func (m *Member) Says(alone bool) error {
	text := "0"
	if alone {
		text = "1"
	}
	return os.WriteFile(m.oracleFile(), []byte(text), 0o644)
}

func (m *Member) configFile() string { return filepath.Join(m.Dir, "zoo.cfg") }

// Line returns the member's line of the ensemble's configuration.
func (m *Member) Line() string { return m.lineFor(m) }

// lineFor returns the line as it is in the configuration of another member.
func (m *Member) lineFor(reader *Member) string {
	at := link{m.quorumPort, m.electionPort}
	if proxied, ok := reader.links[m.ID]; ok {
		at = proxied
	}
	role := "participant"
	if m.Observer {
		role = "observer"
	}
	host := "127.0.0.1"
	if m.ensemble.options.Masters {
		host = fmt.Sprintf("127.0.0.%d", m.ID)
	}
	line := fmt.Sprintf("server.%d=%s:%d:%d:%s", m.ID, host, at.quorum, at.election, role)
	if m.ensemble.options.Reconfig {
		line += fmt.Sprintf(";127.0.0.1:%d", m.clientPort)
	}
	return line
}

// writeConfig writes zoo.cfg and myid. If the configuration may change, existing files are
// left to the servers.
func (m *Member) writeConfig() error {
	e := m.ensemble
	if err := os.MkdirAll(m.DataDir(), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(m.DataDir(), "myid"), fmt.Appendln(nil, m.ID), 0o644); err != nil {
		return err
	}
	if _, err := os.Stat(m.configFile()); err == nil && e.options.Reconfig {
		return nil
	}
	return os.WriteFile(m.configFile(), []byte(m.config(e.Members)), 0o644)
}

// config returns the text of zoo.cfg for an ensemble of the given members.
func (m *Member) config(members []*Member) string {
	lines := mergeLines(ensembleDefaults, m.ensemble.options.Config)
	for _, other := range members {
		lines = append(lines, other.lineFor(m))
	}
	if m.Observer {
		lines = append(lines, "peerType=observer")
	}
	if m.ensemble.options.Oracle {
		lines = append(lines, "oraclePath="+m.oracleFile())
	}
	if !m.ensemble.options.Reconfig {
		return config(m.DataDir(), m.clientPort, Options{Config: lines})
	}
	lines = append(lines, "reconfigEnabled=true", "standaloneEnabled=false")
	text := config(m.DataDir(), m.clientPort, Options{Config: lines})
	// The client port is in the server's line, and must occur only once.
	text = strings.Replace(text, fmt.Sprintf("clientPort=%d\n", m.clientPort), "", 1)
	return strings.Replace(text, "clientPortAddress=127.0.0.1\n", "", 1)
}

// JoinConfig writes a zoo.cfg for a member that will join a running ensemble of the given
// members by a reconfig.
func (m *Member) JoinConfig(members ...*Member) error {
	return os.WriteFile(m.configFile(), []byte(m.config(members)), 0o644)
}

// Listed reports whether the configuration with which the member starts contains it. A
// member that a reconfig has removed is not listed, and needs a JoinConfig.
func (m *Member) Listed() (bool, error) {
	text, err := os.ReadFile(m.configFile())
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "dynamicConfigFile="); ok && err == nil {
			text, err = os.ReadFile(name)
		}
	}
	return strings.Contains(string(text), fmt.Sprintf("server.%d=", m.ID)), err
}

// Launch starts the process and does not wait until it serves.
func (m *Member) Launch(ctx context.Context) error {
	if m.Running() {
		return fmt.Errorf("servers: start server %d: it runs already", m.ID)
	}
	if err := m.Kind.Install(ctx); err != nil {
		return err
	}
	if err := m.writeConfig(); err != nil {
		return fmt.Errorf("servers: start server %d: %w", m.ID, err)
	}
	eo := &m.ensemble.options
	o := Options{DataDir: m.DataDir(), Port: m.clientPort, ConfigFile: m.configFile(), LogFile: filepath.Join(m.Dir, "log"),
		Properties: eo.Properties, HeapMiB: eo.HeapMiB, JavaFlags: eo.JavaFlags, StartWithin: eo.StartWithin, Disk: m.Disk}
	s, err := begin(ctx, m.Kind, o)
	if err != nil {
		return fmt.Errorf("servers: start server %d: %w", m.ID, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server = s
	return nil
}

// AwaitServing waits until the member serves clients.
func (m *Member) AwaitServing(ctx context.Context) error {
	s := m.Server()
	if s == nil {
		return fmt.Errorf("servers: server %d is down", m.ID)
	}
	if err := s.awaitServing(ctx); err != nil {
		return fmt.Errorf("servers: server %d, %s: %w\n%s", m.ID, m.Kind.Name(), err, s.LogTail(4000))
	}
	return nil
}

// Start calls Launch and AwaitServing.
func (m *Member) Start(ctx context.Context) error {
	if err := m.Launch(ctx); err != nil {
		return err
	}
	return m.AwaitServing(ctx)
}

// Server returns the running process, nil if there is none.
func (m *Member) Server() *Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server
}

// Running reports whether the member was started and not ended by this package. A process
// that has ended by itself counts as running: see Server.Ended.
func (m *Member) Running() bool { return m.Server() != nil }

// Stop ends the process with SIGTERM.
func (m *Member) Stop() error { return m.end((*Server).Stop) }

// Kill ends the process with SIGKILL.
func (m *Member) Kill() error { return m.end((*Server).Kill) }

func (m *Member) end(how func(*Server) error) error {
	s := m.Server()
	if s == nil {
		return nil
	}
	err := how(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server = nil
	return err
}

// Pause stops the process; Resume lets it continue.
func (m *Member) Pause() { m.Server().Pause() }

// Resume lets a paused process continue.
func (m *Member) Resume() { m.Server().Resume() }

// Become changes the member's kind, on the same directory: it stops the server, starts the
// new one, and waits until that serves.
func (m *Member) Become(ctx context.Context, k Kind) error {
	if err := m.Stop(); err != nil {
		return err
	}
	m.Kind = k
	return m.Start(ctx)
}

// Status returns the member's status. If the member does not serve, it returns an error.
func (m *Member) Status() (Status, error) {
	if !m.Running() {
		return Status{}, fmt.Errorf("servers: server %d is down", m.ID)
	}
	return ask(m.Addr)
}

// AwaitMode waits until the member has the given mode.
func (m *Member) AwaitMode(ctx context.Context, mode string) error {
	return m.ensemble.await(ctx, fmt.Sprintf("server %d is no %s", m.ID, mode), func() bool {
		s, err := m.Status()
		return err == nil && s.Mode == mode
	})
}

// Log returns the output of all processes of the member; "" before the first.
func (m *Member) Log() string {
	text, err := os.ReadFile(filepath.Join(m.Dir, "log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(text)
}

// LogTail returns the last bytesMax bytes of Log.
func (m *Member) LogTail(bytesMax int) string {
	log := m.Log()
	return log[max(0, len(log)-bytesMax):]
}

// CPU returns the CPU time of all members' running processes.
func (e *Ensemble) CPU() (time.Duration, error) {
	var sum time.Duration
	for _, m := range e.Members {
		s := m.Server()
		if s == nil {
			continue
		}
		one, err := s.CPU()
		if err != nil {
			return 0, err
		}
		sum += one
	}
	return sum, nil
}
