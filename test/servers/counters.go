//go:build linux

package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Counters are a process's uses of the kernel since its start.
type Counters struct {
	Reads, Writes int64 // read and write system calls, on files and sockets
	Switches      int64 // voluntary context switches of its threads: each is a wait and a wake-up
}

// Counters reads the counters. Switches does not include threads that have ended; threads
// of a Go program usually stay.
func (s *Server) Counters() (Counters, error) {
	var c Counters
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", s.Pid()))
	if err != nil {
		return c, fmt.Errorf("servers: counters: %w", err)
	}
	var err1, err2 error
	c.Reads, err1 = counter(io, "syscr:")
	c.Writes, err2 = counter(io, "syscw:")
	tasks, err3 := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", s.Pid()))
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		n, err := counter(status, "voluntary_ctxt_switches:")
		err3 = errors.Join(err3, err)
		c.Switches += n
	}
	return c, errors.Join(err1, err2, err3)
}

// counter returns the number after a name at the beginning of a line.
func counter(text []byte, name string) (int64, error) {
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("servers: counters: no %s", name)
}
