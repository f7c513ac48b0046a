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

// A Server is one running store, of one process or several. Its methods are
// called from one goroutine at a time.
type Server struct {
	// Name and Version say what runs.
	Name, Version string
	// URL is what the backend's Open takes.
	URL string
	// Addr is the "127.0.0.1:port" that clients connect to, for a proxy.
	Addr string
	// Note is what else tests of that store need, by keys of its recipe.
	Note map[string]string

	members []member // in the order in which they are started
}

// member is one process of a store.
type member interface {
	// Crash ends it with SIGKILL and keeps its files.
	Crash()
	// Restart starts it again after Crash and waits until it answers.
	Restart(ctx context.Context) error
	// Pause and Resume stop it where it stands, and let it go on.
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
		_ = s.members[i].Kill() // only files could be left behind, in the test's directory
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

// Part returns one process of the store as a server, to crash or pause it
// alone; nil if there is none of that name.
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

// LogTail returns the ends of the logs, for a test that has failed.
func (s *Server) LogTail(bytesMax int) string {
	var text strings.Builder
	for i, m := range s.members {
		fmt.Fprintf(&text, "--- %s, process %d:\n%s\n", s.Name, i+1, m.LogTail(bytesMax))
	}
	return text.String()
}

// add starts one more process of the store and waits until it answers; if it
// does not, all of the store ends.
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

// Title is the name and version, for reports.
func (s *Server) Title() string { return s.Name + " " + s.Version }

// Proxy opens a link to the store for a test, and returns the URL with the
// link's address in place of the store's. It is what electiontest.Suite wants.
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

// Link opens a proxy to the store, which can be cut, slowed and healed in each
// direction by itself. Close it.
func (s *Server) Link() (*servers.Link, error) { return servers.NewLink(s.Addr) }

// Links returns so many of them, which end with the test.
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
