package lostupdate

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Server serves the registers on loopback.
type Server struct {
	// Addr is the address that it listens on.
	Addr     string
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex
	values map[string]*register
	open   map[net.Conn]bool
	closed bool
}

// register is one value, with all that was written to it.
type register struct {
	fenced  bool
	highest uint64 // token seen so far
	writes  []write
	refused int
}

// Serve starts a server with empty registers. The caller must close it.
func Serve() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("lostupdate: %w", err)
	}
	s := &Server{Addr: l.Addr().String(), listener: l, open: map[net.Conn]bool{}, values: map[string]*register{}}
	for _, name := range Registers {
		s.values[name] = &register{fenced: name == Fenced}
	}
	s.serving.Go(s.accept)
	return s, nil
}

// Close ends all connections and waits for them.
func (s *Server) Close() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[c] = true
		if s.closed {
			c.Close()
		}
		s.mu.Unlock()
		s.serving.Go(func() { s.serve(c) })
	}
}

// serve answers the lines of one connection.
func (s *Server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
	}()
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		answer, err := s.answer(strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + err.Error()
		}
		if _, err := fmt.Fprintln(c, answer); err != nil {
			return
		}
	}
}

// answer carries out one line.
func (s *Server) answer(fields []string) (string, error) {
	if len(fields) < 3 {
		return "", fmt.Errorf("a line of %d fields", len(fields))
	}
	token, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return "", fmt.Errorf("token %q", fields[2])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.values[fields[1]]
	if r == nil {
		return "", fmt.Errorf("no register %q", fields[1])
	}
	if r.fenced && token < r.highest {
		r.refused++
		return "stale", nil
	}
	r.highest = max(r.highest, token)
	switch {
	case fields[0] == "read" && len(fields) == 3:
		return "value " + r.value(), nil
	case fields[0] == "write" && len(fields) == 5:
		r.writes = append(r.writes, write{fields[3], fields[4]})
		return "done", nil
	}
	return "", fmt.Errorf("unknown line %q", strings.Join(fields, " "))
}

func (r *register) value() string {
	if len(r.writes) == 0 {
		return none
	}
	return r.writes[len(r.writes)-1].id
}

// Judge counts what became of the updates so far.
func (s *Server) Judge() (map[string]Count, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[string]Count{}
	for name, r := range s.values {
		gone, err := lost(r.writes)
		if err != nil {
			return nil, err
		}
		counts[name] = Count{len(r.writes), gone, r.refused}
	}
	return counts, nil
}

// Updates returns how many updates of one register were acknowledged so far.
func (s *Server) Updates(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values[name].writes)
}
