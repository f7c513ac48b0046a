package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// ownProgram returns a path to the program of this process, even if its file was replaced:
// a candidate may wait for weeks, and supervisor and guardian must have the same version.
func ownProgram() (string, error) { return "/proc/self/exe", nil }

// procDir lists the processes.
const procDir = "/proc"

// checkProc returns an error if /proc is missing or belongs to another pid namespace: its
// numbers would be those of other processes, so descendants could not be found.
func checkProc(dir string) error {
	self, err := os.Readlink(dir + "/self")
	if err != nil {
		return fmt.Errorf("find descendants of the command: %w; mount %s", err, dir)
	}
	if pid := strconv.Itoa(os.Getpid()); self != pid {
		return fmt.Errorf("find descendants of the command: %s shows another pid namespace: "+
			"this process is %s there, and %s to itself; mount it again, as unshare --mount-proc does", dir, self, pid)
	}
	return nil
}

const prSetChildSubreaper = 36 // linux/prctl.h

// becomeSubreaper makes this process, and not init, the parent of all orphans among its
// descendants, even of those in other sessions and process groups.
func becomeSubreaper() error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	if errno != 0 {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", errno)
	}
	return nil
}

// commandAttr starts a process in a session of its own that dies with the guardian's
// thread.
func commandAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// groupLives need not look at the group: a subreaper without children has no descendants.
func groupLives(int) bool { return false }

// relative is a descendant of this process.
type relative struct {
	pid, parent, group int
	started            uint64 // in ticks since boot; with the pid it identifies the process
	dead               bool   // a zombie, or a process that looks like one
	stopped            bool   // by a signal or a debugger
}

// signal signals the process, unless its number has been reused since it was found: a
// handle (pidfd) keeps the number from changing its owner while that is checked.
func (r relative) signal(how syscall.Signal) {
	process, err := os.FindProcess(r.pid)
	if err != nil {
		return
	}
	defer func() { _ = process.Release() }()
	if now, ok := processOf(r.pid); ok && now.started == r.started {
		_ = process.Signal(how)
	}
}

// descendants returns all descendants of a process, parents first. It includes zombies,
// because a process whose first thread has ended looks like one while its other threads may
// still have children. The result may be outdated at once; a caller that waits for the end
// has to look again.
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

// processes returns all processes in /proc.
func processes() []relative {
	proc, err := os.Open(procDir)
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
		if one, ok := processOf(pid); ok {
			all = append(all, one)
		}
	}
	return all
}

// processOf reads the entry of a process in /proc; false if it has ended.
func processOf(pid int) (relative, bool) {
	text, err := os.ReadFile(procDir + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return relative{}, false
	}
	return parseStat(pid, text)
}

// isStopped reports whether a process is stopped.
func isStopped(pid int) bool {
	one, ok := processOf(pid)
	return ok && one.stopped
}

// startedField is the index of starttime among the fields after the name.
const startedField = 19

// parseStat parses "pid (name) state ppid pgrp ...". The name may contain anything,
// including parentheses and spaces.
func parseStat(pid int, text []byte) (relative, bool) {
	at := bytes.LastIndexByte(text, ')')
	if at < 0 {
		return relative{}, false
	}
	one := relative{pid: pid}
	fields := bytes.Fields(text[at+1:])
	if len(fields) <= startedField {
		return one, false
	}
	var state string
	_, err := fmt.Sscan(string(text[at+1:]), &state, &one.parent, &one.group)
	one.dead, one.stopped = state == "Z", state == "T" || state == "t"
	if err == nil {
		one.started, err = strconv.ParseUint(string(fields[startedField]), 10, 64)
	}
	return one, err == nil
}
