package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/vfs"
)

// wired starts the n servers of an ensemble on the virtual time of a bubble, where nobody is
// silent because the machine is slow. It returns functions that end them, by number, and the
// network.
func wired(t *testing.T, n int, change func(*Config)) (all map[quorum.ID]*Server, ends map[quorum.ID]func() error, net *bubble.Net) {
	t.Helper()
	text := ""
	for id := 1; id <= n; id++ {
		text += fmt.Sprintf("server.%d=%s:2888:3888\n", id, bubble.Host(id))
	}
	config, err := ensemble.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	all, ends, net = map[quorum.ID]*Server{}, map[quorum.ID]func() error{}, bubble.NewNet(0)
	now := bubble.Clock(1)
	for _, m := range config.Members {
		clients, err := net.Listen(t.Context(), "tcp", bubble.Host(int(m.ID))+":2181")
		if err != nil {
			t.Fatal(err)
		}
		s, end := launch(t, vfs.NewMem(), func(c *Config) {
			c.ID, c.Ensemble, c.Clock, c.Wall = m.ID, config, now, time.Now
			c.Listener, c.Listen, c.PeerDial = clients, net.Listen, net.Dialer(int(m.ID))
			change(c)
		})
		t.Cleanup(func() {
			if err := end(); err != nil && !t.Failed() {
				t.Errorf("server %d ended with %v", m.ID, err)
			}
		})
		all[m.ID], ends[m.ID] = s, end
	}
	return all, ends, net
}

// reach is dial in a bubble.
func reach(t *testing.T, net *bubble.Net, s *Server) *peer {
	t.Helper()
	socket, err := net.Dialer(clientMachine)(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return greet(t, socket, nil)
}
