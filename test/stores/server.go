//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/test/servers"
)

// A Server is one running store, with one or several processes. Its methods must not be
// called concurrently.
type Server struct {
	// Name and Version are of the running store.
	Name, Version string
	// URL is for the backend's Open.
	URL string
	// Addr is the client address "127.0.0.1:port", for a proxy.
	Addr string
	// Note contains other values that tests of the store need, by keys that the recipe
	// defines.
	Note map[string]string

	members []member // in starting order
}

// member is one process of a store.
type member interface {
	// Crash ends it with SIGKILL; its files stay.
	Crash()
	// Restart starts it again after Crash and waits until it answers.
	Restart(ctx context.Context) error
	// Pause stops it, and Resume lets it continue.
	Pause()
	Resume()
	// Kill ends it for good.
	Kill() error
	LogTail(bytesMax int) string
}

var _ member = (*servers.Server)(nil)

// Stop ends the store for good, with SIGKILL, last process first.
func (s *Server) Stop() {
	for i := len(s.members) - 1; i >= 0; i-- {
		_ = s.members[i].Kill() // at worst, files are left in the test's directory
	}
}

// Restart kills the store and starts it again on the same ports and data.
func (s *Server) Restart(ctx context.Context) error {
	s.Crash()
	return s.Revive(ctx)
}

// Crash kills the store and keeps its data, for Revive.
func (s *Server) Crash() {
	for i := len(s.members) - 1; i >= 0; i-- {
		s.members[i].Crash()
	}
}

// Revive starts the store again after Crash and waits until it answers.
func (s *Server) Revive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for _, m := range s.members {
		if err := m.Restart(ctx); err != nil {
			return fmt.Errorf("stores: restart %s: %w", s.Name, err)
		}
	}
	return nil
}

// Pause freezes all processes of the store with SIGSTOP.
func (s *Server) Pause() {
	for _, m := range s.members {
		m.Pause()
	}
}

// Part returns one process of the store as a Server, to crash or pause only this process;
// nil if there is no process with that name.
func (s *Server) Part(name string) *Server {
	for _, m := range s.members {
		if p, ok := m.(*process); ok && p.name == name {
			return &Server{Name: name, Version: s.Version, URL: s.URL, Addr: s.Addr, Note: s.Note, members: []member{m}}
		}
	}
	return nil
}

// Resume ends Pause.
func (s *Server) Resume() {
	for _, m := range s.members {
		m.Resume()
	}
}

// LogTail returns the ends of the logs, for a failed test.
func (s *Server) LogTail(bytesMax int) string {
	var text strings.Builder
	for i, m := range s.members {
		fmt.Fprintf(&text, "--- %s, process %d:\n%s\n", s.Name, i+1, m.LogTail(bytesMax))
	}
	return text.String()
}

// add starts another process of the store and waits until it answers; if it does not, the
// whole store is ended.
func (s *Server) add(ctx context.Context, p *process) error {
	err := p.start(ctx)
	if err == nil {
		s.members = append(s.members, p)
		return nil
	}
	err = fmt.Errorf("%w\n%s", err, p.LogTail(4000))
	killed := p.Kill()
	s.Stop()
	return errors.Join(err, killed)
}

// Title returns the name and version, for reports.
func (s *Server) Title() string { return s.Name + " " + s.Version }

// Proxy opens a link to the store for a test, and returns the URL with the link's address
// in place of the store's, as electiontest.Suite needs it.
func (s *Server) Proxy(t testing.TB, url string) (string, electiontest.Link) {
	t.Helper()
	if !strings.Contains(url, s.Addr) {
		t.Fatalf("the URL %s has no address %s to put a proxy before", url, s.Addr)
	}
	link, err := s.Link()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(link.Close)
	return strings.ReplaceAll(url, s.Addr, link.Addr), link
}

// Link opens a proxy to the store, which can be partitioned, slowed and healed in each
// direction separately. The caller must close it.
func (s *Server) Link() (*servers.Link, error) { return servers.NewLink(s.Addr) }

// Links returns count links, which end with the test.
func (s *Server) Links(t testing.TB, count int) []*servers.Link {
	t.Helper()
	links := make([]*servers.Link, count)
	for i := range links {
		var err error
		if links[i], err = s.Link(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(links[i].Close)
	}
	return links
}
