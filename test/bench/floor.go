//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/bench/floor"
	"github.com/conclave-project/conclave/test/servers"
)

// floorServer is the command with which this program starts itself as a floor server.
const floorServer = "floor-server"

// floorLogMiB is the size of a floor's log, which is allocated before it serves.
const floorLogMiB = 4 << 10

// parseFloor parses the command line of a comparison with the floor. In an ensemble, the
// load is on the leader: the floor's peers serve no clients.
func parseFloor(args []string) (*plan, error) {
	p := &plan{atLeader: true}
	f := flag.NewFlagSet("bench floor", flag.ExitOnError)
	var names []string
	for _, l := range loads {
		names = append(names, l.name)
	}
	if err := p.parse(f, args, func(int) []string { return names }); err != nil {
		return nil, err
	}
	p.subjects = append([]subject{leastServer{logMiB: floorLogMiB}}, programs([]servers.Kind{servers.Conclave()})...)
	return p, nil
}

// A leastServer is the subject of package floor, in separate processes.
type leastServer struct{ logMiB int }

func (leastServer) Name() string { return "floor" }

func (leastServer) Install(context.Context) error { return nil }

func (leastServer) server(context.Context, *plan, func(*servers.Server) error) error {
	return errors.New("bench: the floor has no tree to measure")
}

func (l leastServer) target(_ context.Context, p *plan, f func(target) error) error {
	dir, err := os.MkdirTemp("", "conclave-floor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var pids []int
	var peers []string
	for n := p.size - 1; n >= 0; n-- {
		args := []string{floorServer, "-log", filepath.Join(dir, fmt.Sprint(n)), "-log-mib", fmt.Sprint(l.logMiB)}
		if n > 0 {
			args = append(args, "-follows")
		} else {
			args = append(args, "-peers", strings.Join(peers, ","))
		}
		pid, addr, end, err := startFloor(args)
		if err != nil {
			return err
		}
		defer end()
		pids, peers = append(pids, pid), append(peers, addr)
	}
	leader := p.size - 1
	on := target{addrs: peers[leader:], cpu: func() (time.Duration, error) { return cpuOf(pids...) }}
	if p.size > 1 {
		on.leader = func() (time.Duration, error) { return cpuOf(pids[leader]) }
	}
	return f(on)
}

// cpuOf returns the CPU time of processes so far.
func cpuOf(pids ...int) (sum time.Duration, err error) {
	for _, pid := range pids {
		cpu, err := servers.CPUOf(pid)
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

// startFloor starts this program as a floor server, and returns when it accepts
// connections.
func startFloor(args []string) (pid int, addr string, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, "", nil, err
	}
	command := exec.Command(self, args...)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		return 0, "", nil, err
	}
	if end, err = childtest.Begin(command); err != nil {
		return 0, "", nil, fmt.Errorf("bench: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		end()
		return 0, "", nil, fmt.Errorf("bench: the floor did not start: %w", err)
	}
	return command.Process.Pid, strings.TrimSpace(line), end, nil
}

// serveFloor runs the floor's process: it prints its address and serves until it is killed.
func serveFloor(args []string) error {
	f := flag.NewFlagSet(floorServer, flag.ExitOnError)
	name := f.String("log", "", "the file of its log")
	size := f.Int64("log-mib", floorLogMiB, "its size")
	follows := f.Bool("follows", false, "be a peer: the connection that comes is the leader's")
	peers := f.String("peers", "", "addresses of its peers, separated by commas")
	if err := f.Parse(args); err != nil {
		return err
	}
	log, err := floor.NewLog(*name, *size<<20)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var conns []net.Conn
	for addr := range strings.SplitSeq(*peers, ",") {
		if addr == "" {
			continue
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	fmt.Println(listener.Addr())
	if !*follows {
		return floor.NewServer(log, conns...).Serve(listener)
	}
	leader, err := listener.Accept()
	if err != nil {
		return err
	}
	return floor.Follow(log, leader)
}
