// Package sdnotify reports the state of a server to the service manager that started it:
// systemd, or another one that sets NOTIFY_SOCKET.
//
// It watches a running server and sends datagrams to a socket. What always holds:
//
//	sdnotify-N1  READY goes out once: when clients are served, or when none have been for
//	             QuorumWait. So in a rolling restart the next unit waits until this server
//	             serves, and the first server of an ensemble does not wait for ever.
//	sdnotify-N2  WATCHDOG goes out after the loop of the server has answered, and at no other
//	             time: a server that hangs is ended by its manager.
//	sdnotify-N3  STOPPING goes out before the orderly shutdown begins.
//
// It does not start, stop or restart anything. A failure to send is logged once.
package sdnotify

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/conclave-project/conclave/internal/server"
)

const (
	// QuorumWait is how long a server without a quorum delays READY.
	QuorumWait = 20 * time.Second
	// look is the time between two looks at the server.
	look = 100 * time.Millisecond
)

// Served is the server that is reported on.
type Served interface {
	Serves() bool
	Status() server.Status // waits for the loop
}

// Manager is the service manager. Use FromEnvironment.
type Manager struct {
	send     func(state string) error
	watchdog time.Duration // 0 for none
	log      *slog.Logger
	failed   bool
}

// FromEnvironment returns the manager that started this process, nil if none asks for
// notifications. value is os.Getenv.
func FromEnvironment(value func(string) string, log *slog.Logger) *Manager {
	name := value("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	m := &Manager{log: log, send: func(state string) error { return send(name, state) }}
	if pid := value("WATCHDOG_PID"); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		micros, err := strconv.ParseInt(value("WATCHDOG_USEC"), 10, 64)
		if err == nil && micros > 0 {
			m.watchdog = time.Duration(micros) * time.Microsecond
		}
	}
	return m
}

// send writes one datagram; a name that begins with @ is in the abstract namespace.
func send(name, state string) error {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}

// Run reports on a server until the context ends; the same context ends the server.
func (m *Manager) Run(ctx context.Context, s Served) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	began := time.Now()
	fed := began
	ready, status := false, ""
	for {
		select {
		case <-ctx.Done():
			m.tell("STOPPING=1")
			return
		case <-ticker.C:
		}
		serves := s.Serves()
		if !ready && (serves || time.Since(began) >= QuorumWait) {
			ready = true
			m.tell("READY=1")
		}
		if now := message(serves); now != status {
			status = now
			m.tell("STATUS=" + status)
		}
		if m.watchdog > 0 && time.Since(fed) >= m.watchdog/3 {
			if !s.Status().Ended {
				m.tell("WATCHDOG=1")
			}
			fed = time.Now()
		}
	}
}

func message(serves bool) string {
	if serves {
		return "Clients are served"
	}
	return "No client is served: no leader with a quorum is followed"
}

func (m *Manager) tell(state string) {
	if err := m.send(state); err != nil && !m.failed {
		m.failed = true
		m.log.Warn("the service manager could not be told", "state", state, "err", err)
	}
}
