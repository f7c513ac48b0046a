//go:build linux

package stores

import (
	"fmt"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// CPU returns the CPU time of the store's processes so far, user and system, without
// children that have ended.
func (s *Server) CPU() (sum time.Duration, err error) {
	for _, m := range s.members {
		var pids []int
		switch m := m.(type) {
		case *servers.Server:
			pids = append(pids, m.Pid())
		case *postmaster:
			pids = append(childrenOf(m.command.Process.Pid), m.command.Process.Pid)
		case *process:
			pids = append(childrenOf(m.command.Process.Pid), m.command.Process.Pid)
		default:
			return 0, fmt.Errorf("stores: CPU time of %s: a %T", s.Name, m)
		}
		for n, pid := range pids {
			cpu, err := servers.CPUOf(pid)
			if err != nil && n == len(pids)-1 { // a child may have ended
				return 0, err
			}
			sum += cpu
		}
	}
	return sum, nil
}
