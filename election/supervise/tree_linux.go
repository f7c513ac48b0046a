package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

const prSetChildSubreaper = 36 // linux/prctl.h

// becomeSubreaper makes orphans among the descendants children of this process
// instead of init's, whatever sessions and groups they have made.
func becomeSubreaper() error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	if errno != 0 {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", errno)
	}
	return nil
}

// commandAttr: a session of its own, and death with the guardian's thread.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// groupLives: a subreaper without children has no descendants, so the group
// need not be asked.
func groupLives(int) bool { return false }

// relative is a process among the descendants.
type relative struct {
	pid, parent, group int
	dead               bool // a zombie, or one that looks so
}

// descendants returns all descendants of a process, parents first. Zombies are
// among them: a process whose first thread has ended looks like one, while the
// others still have children. What it finds may be outdated at once; whoever
// wants an end looks again.
func descendants(of int) []relative {
	children := make(map[int][]relative)
	for _, one := range processes() {
		children[one.parent] = append(children[one.parent], one)
	}
	found := append([]relative(nil), children[of]...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// processes reads /proc.
func processes() []relative {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	var all []relative
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // it ended meanwhile
		}
		if one, ok := parseStat(pid, text); ok {
			all = append(all, one)
		}
	}
	return all
}

// parseStat reads "pid (name) state ppid pgrp ...", where the name may hold
// anything, parentheses and spaces too.
func parseStat(pid int, text []byte) (relative, bool) {
	at := bytes.LastIndexByte(text, ')')
	if at < 0 {
		return relative{}, false
	}
	one := relative{pid: pid}
	var state string
	_, err := fmt.Sscan(string(text[at+1:]), &state, &one.parent, &one.group)
	one.dead = state == "Z"
	return one, err == nil
}
