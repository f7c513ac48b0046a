//go:build linux && chaos

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// A fault is a way to break something. begin breaks it and returns a description and a
// function that heals it; "" if the fault is not possible now.
type fault struct {
	name  string
	share int // relative frequency
	begin func(s *storm) (what string, heal func() error)
}

// everywhere are the faults of processes and disks.
var everywhere = []fault{
	{"kill", 10, (*storm).kill},
	{"kill leader", 10, (*storm).killLeader},
	{"kill all", 2, (*storm).killAll},
	{"restart", 4, (*storm).restart},
	{"pause", 8, (*storm).pause},
	{"pause leader", 6, (*storm).pauseLeader},
	{"full disk", 5, (*storm).fullDisk},
	{"slow disk", 6, (*storm).slowDisk},
	{"broken disk", 4, (*storm).brokenDisk},
}

// onLinks are the faults of the network, and the loss of a disk: for this, all servers must
// have a vote, because otherwise the disk might be one of the two of a quorum.
var onLinks = []fault{
	{"cut one way", 8, (*storm).cutOneWay},
	{"cut both ways", 6, (*storm).cutBothWays},
	{"isolate", 6, (*storm).isolate},
	{"isolate leader", 6, (*storm).isolateLeader},
	{"mute leader", 4, (*storm).muteLeader},
	{"deafen leader", 4, (*storm).deafenLeader},
	{"split", 6, (*storm).split},
	{"ring", 3, (*storm).ring},
	{"delay", 6, (*storm).delay},
	{"reset", 6, (*storm).reset},
	{"flap", 3, (*storm).flap},
	{"lost disk", 2, (*storm).lostDisk},
}

// onMembers change the configuration of the ensemble.
var onMembers = []fault{
	{"reconfig", 20, (*storm).reconfig},
	{"reconfig, kill leader", 30, (*storm).reconfigKillLeader},
}

// some returns a running member without another fault, nil if there is none.
func (s *storm) some() *servers.Member {
	var well []*servers.Member
	for _, m := range s.e.Members {
		if m.Running() && !s.touched[m] {
			well = append(well, m)
		}
	}
	if len(well) == 0 {
		return nil
	}
	return s.take(well[s.random.IntN(len(well))])
}

func (s *storm) take(m *servers.Member) *servers.Member {
	s.touched[m] = true
	return m
}

// leader returns the leading member, if it has no other fault.
func (s *storm) leader() *servers.Member {
	m := s.e.Leader()
	if m == nil || s.touched[m] {
		return nil
	}
	return s.take(m)
}

func server(m *servers.Member) string { return fmt.Sprintf("server %d", m.ID) }

func (s *storm) kill() (string, func() error)       { return s.killOne(s.some()) }
func (s *storm) killLeader() (string, func() error) { return s.killOne(s.leader()) }

func (s *storm) killOne(m *servers.Member) (string, func() error) {
	if m == nil {
		return "", nil
	}
	s.must(m.Kill())
	return server(m), func() error { return s.launch(m) }
}

func (s *storm) killAll() (string, func() error) {
	var down []*servers.Member
	for _, m := range s.e.Members {
		if m.Running() && !s.touched[m] {
			down = append(down, m)
		}
	}
	if len(down) < 2 {
		return "", nil // the others have enough faults already
	}
	for _, m := range down {
		s.must(s.take(m).Kill())
	}
	return fmt.Sprintf("%d servers", len(down)), func() error {
		for _, m := range down {
			if err := s.launch(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *storm) restart() (string, func() error) {
	m := s.some()
	if m == nil {
		return "", nil
	}
	s.must(m.Stop())
	return server(m), func() error { return s.launch(m) }
}

func (s *storm) pause() (string, func() error)       { return s.pauseOne(s.some()) }
func (s *storm) pauseLeader() (string, func() error) { return s.pauseOne(s.leader()) }

func (s *storm) pauseOne(m *servers.Member) (string, func() error) {
	if m == nil {
		return "", nil
	}
	m.Pause()
	return server(m), func() error { m.Resume(); return nil }
}

// pair returns two different servers.
func (s *storm) pair() (int, int) {
	ids := s.random.Perm(len(s.e.Members))
	return ids[0] + 1, ids[1] + 1
}

// cut partitions some directions.
func (s *storm) cut(what string, directions ...[2]int) (string, func() error) {
	for _, d := range directions {
		s.e.Network.Cut(d[0], d[1])
	}
	resets := s.random.IntN(2) == 0
	return what, func() error {
		for _, d := range directions {
			if resets {
				// Bytes in flight are lost with their connection.
				s.e.Network.Reset(d[0], d[1])
			}
			s.e.Network.HealOne(d[0], d[1])
		}
		return nil
	}
}

func (s *storm) cutOneWay() (string, func() error) {
	a, b := s.pair()
	return s.cut(fmt.Sprintf("%d to %d", a, b), [2]int{a, b})
}

func (s *storm) cutBothWays() (string, func() error) {
	a, b := s.pair()
	return s.cut(fmt.Sprintf("%d and %d", a, b), [2]int{a, b}, [2]int{b, a})
}

func (s *storm) isolate() (string, func() error)       { return s.isolateOne(s.some(), true, true) }
func (s *storm) isolateLeader() (string, func() error) { return s.isolateOne(s.leader(), true, true) }
func (s *storm) muteLeader() (string, func() error)    { return s.isolateOne(s.leader(), false, true) }
func (s *storm) deafenLeader() (string, func() error)  { return s.isolateOne(s.leader(), true, false) }

func (s *storm) isolateOne(m *servers.Member, in, out bool) (string, func() error) {
	if m == nil {
		return "", nil
	}
	var directions [][2]int
	for _, other := range s.e.Members {
		if other == m {
			continue
		}
		if in {
			directions = append(directions, [2]int{other.ID, m.ID})
		}
		if out {
			directions = append(directions, [2]int{m.ID, other.ID})
		}
	}
	return s.cut(server(m), directions...)
}

// split partitions the ensemble into two parts.
func (s *storm) split() (string, func() error) {
	order := s.random.Perm(len(s.e.Members))
	size := 1 + s.random.IntN(len(order)-1)
	var directions [][2]int
	for _, a := range order[:size] {
		for _, b := range order[size:] {
			directions = append(directions, [2]int{a + 1, b + 1}, [2]int{b + 1, a + 1})
		}
	}
	return s.cut(fmt.Sprintf("%d from %d", size, len(order)-size), directions...)
}

// ring connects each server only with its two neighbours.
func (s *storm) ring() (string, func() error) {
	order := s.random.Perm(len(s.e.Members))
	var directions [][2]int
	for i, a := range order {
		for j, b := range order {
			if distance := (i - j + len(order)) % len(order); distance > 1 && distance < len(order)-1 {
				directions = append(directions, [2]int{a + 1, b + 1})
			}
		}
	}
	if len(directions) == 0 {
		return "", nil
	}
	return s.cut("all", directions...)
}

// delay makes a server's links slow, one direction or both.
func (s *storm) delay() (string, func() error) {
	a, _ := s.pair()
	by := time.Duration(5+s.random.IntN(400)) * time.Millisecond
	both := s.random.IntN(2) == 0
	set := func(by time.Duration) {
		for _, m := range s.e.Members {
			if m.ID == a {
				continue
			}
			s.e.Network.Delay(a, m.ID, by)
			if both {
				s.e.Network.Delay(m.ID, a, by)
			}
		}
	}
	set(by)
	return fmt.Sprintf("server %d by %v", a, by), func() error { set(0); return nil }
}

// reset closes all connections of one pair, or of all.
func (s *storm) reset() (string, func() error) {
	a, b := s.pair()
	if s.random.IntN(3) > 0 {
		s.e.Network.Reset(a, b)
		return fmt.Sprintf("%d and %d", a, b), func() error { return nil }
	}
	for i := range s.e.Members {
		for j := range i {
			s.e.Network.Reset(i+1, j+1)
		}
	}
	return "all", func() error { return nil }
}

// flap partitions and heals one server's links quickly.
func (s *storm) flap() (string, func() error) {
	m := s.some()
	if m == nil {
		return "", nil
	}
	const times = 5
	for range times {
		_, heal := s.isolateOne(m, true, true)
		s.sleep(time.Duration(10+s.random.IntN(300)) * time.Millisecond)
		s.must(heal())
		s.sleep(time.Duration(10+s.random.IntN(300)) * time.Millisecond)
	}
	return server(m), func() error { return nil }
}

func (s *storm) fullDisk() (string, func() error) {
	m := s.some()
	if m == nil {
		return "", nil
	}
	s.must(servers.FillDisk(m.DataDir()))
	return server(m), func() error { return servers.EmptyDisk(m.DataDir()) }
}

func (s *storm) slowDisk() (string, func() error) {
	m := s.some()
	if m == nil {
		return "", nil
	}
	by := time.Duration(10+s.random.IntN(500)) * time.Millisecond
	m.Disk.Slow(by)
	return fmt.Sprintf("%s by %v", server(m), by), func() error { m.Disk.Heal(); return nil }
}

// unsaved is what a server logs when it could not write its configuration file. It
// continues, because the log contains the reconfig.
const unsaved = "the configuration was not saved"

// brokenDisk fails every sync: the server must end by itself rather than continue, unless
// only that file failed. It is started again on the healed disk.
func (s *storm) brokenDisk() (string, func() error) {
	m := s.some()
	if m == nil {
		return "", nil
	}
	s.mayEnd[m] = true
	failed, before := m.Disk.Failed(), strings.Count(m.Log(), unsaved)
	m.Disk.Fail(syscall.EIO)
	return server(m), func() error {
		m.Disk.Heal()
		// Apache's server may take some time.
		if m.Disk.Failed() > failed && m.Kind == servers.Conclave() {
			select {
			case <-m.Server().Ended():
			case <-time.After(5 * time.Second):
				if m.Disk.Failed()-failed > strings.Count(m.Log(), unsaved)-before {
					s.breach("server %d goes on after a sync has failed", m.ID)
				}
			}
		}
		s.must(m.Kill())
		delete(s.mayEnd, m)
		return s.launch(m)
	}
}

// lostDisk wipes a server while all others are well. It is back in the ensemble before the
// next fault begins.
func (s *storm) lostDisk() (string, func() error) {
	if len(s.on) > 0 {
		return "", nil
	}
	s.calm()
	m := s.some()
	s.must(m.Kill())
	entries, err := os.ReadDir(m.DataDir())
	s.must(err)
	for _, entry := range entries {
		s.must(os.RemoveAll(filepath.Join(m.DataDir(), entry.Name())))
	}
	s.must(m.Launch(s.ctx))
	s.calm()
	return server(m), func() error { return nil }
}
