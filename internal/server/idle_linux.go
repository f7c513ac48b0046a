package server

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/internal/session"
)

// poller waits for all idle connections at once. It has an epoll instance, which is itself a
// file that Go's runtime waits for. The zero value waits for none.
type poller struct {
	file  *os.File
	epoll syscall.RawConn
}

// pollEvents are what to report about an idle connection, once: afterwards the descriptor stays
// registered, and reports nothing until the connection is idle again.
const pollEvents = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT

// pollBatch is how many connections are continued at a time.
const pollBatch = 128

func (p *poller) open() error {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // os.NewFile requires it
		syscall.Close(fd)
		return os.NewSyscallError("fcntl", err)
	}
	p.file = os.NewFile(uintptr(fd), "epoll")
	if err := p.file.SetReadDeadline(time.Time{}); err != nil { // Go's runtime cannot wait for it
		p.close()
		return err
	}
	p.epoll, err = p.file.SyscallConn()
	return err
}

// close ends run. Connections that are still idle are not notified.
func (p *poller) close() {
	if p.file != nil {
		p.file.Close()
	}
}

// watch has ready called for the connection once something has arrived, or the end, even if
// that was before the call. It returns false if the system does not accept the socket.
func (p *poller) watch(c *conn) bool {
	if p.epoll == nil {
		return false
	}
	err, failed := error(nil), error(nil)
	closed := c.input.raw.Control(func(socket uintptr) { // while the socket is open, so that its number belongs to no other
		failed = p.epoll.Control(func(epoll uintptr) { err = pollAgain(int(epoll), int(socket), c.id) })
	})
	return err == nil && failed == nil && closed == nil
}

// pollAgain registers a socket for one event. A socket leaves the epoll instance when it is
// closed.
func pollAgain(epoll, socket int, id session.ConnID) error {
	e := syscall.EpollEvent{Events: pollEvents, Fd: int32(id), Pad: int32(id >> 32)}
	err := syscall.EpollCtl(epoll, syscall.EPOLL_CTL_MOD, socket, &e)
	if errors.Is(err, syscall.ENOENT) {
		err = syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, socket, &e)
	}
	return err
}

// run calls ready for the connections that have an event, until close. It ignores connections
// that are gone or no longer idle.
func (p *poller) run(conns *conns) error {
	events := make([]syscall.EpollEvent, pollBatch)
	for {
		n, err := 0, error(nil)
		closed := p.epoll.Read(func(epoll uintptr) bool {
			n, err = pollNow(int(epoll), events)
			return n > 0 || err != nil
		})
		if closed != nil {
			return nil
		}
		if err != nil {
			return os.NewSyscallError("epoll_wait", err)
		}
		for _, e := range events[:n] {
			if c := conns.get(session.ConnID(uint32(e.Fd)) | session.ConnID(uint32(e.Pad))<<32); c != nil {
				c.ready()
			}
		}
	}
}

// pollNow returns the present events without waiting.
func pollNow(epoll int, events []syscall.EpollEvent) (n int, err error) {
	for {
		if n, err = syscall.EpollWait(epoll, events, 0); !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// pollIdle begins to wait for idle connections.
func (s *Server) pollIdle() {
	if s.cfg.Listen != nil {
		return
	}
	if err := s.poller.open(); err != nil {
		s.cfg.Logger.Warn("each idle connection takes a goroutine: the system provides no epoll", "error", err)
		return
	}
	s.task(func() {
		if err := s.poller.run(&s.conns); err != nil {
			s.fail(fmt.Errorf("wait for idle connections: %w", err))
		}
	})
}
