package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// ownProgram is what this process runs, whatever stands at its path by now: a
// candidate may wait for weeks, and the two instances are of one version.
func ownProgram() (string, error) { return "/proc/self/exe", nil }

// procDir shows the processes.
const procDir = "/proc"

// checkProc refuses a /proc that is missing or that of another pid namespace: the
// numbers in it are those of other processes, and descendants could not be found.
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
	started            uint64 // in ticks since boot: with the pid, this process and no other
	dead               bool   // a zombie, or one that looks so
	stopped            bool   // by a signal or a debugger
}

// signal signals the process, unless its number has passed to another one since
// it was found: the process is held by a handle (pidfd) while that is looked at.
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

// descendants returns all descendants of a process, parents first. Zombies are
// among them: a process whose first thread has ended looks like one, while the
// others still have children. What it finds may be outdated at once; a caller
// that waits for the end looks again.
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

// processOf reads what /proc says of a process, false when it has ended.
func processOf(pid int) (relative, bool) {
	text, err := os.ReadFile(procDir + "/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return relative{}, false
	}
	return parseStat(pid, text)
}

// isStopped reports whether a process was stopped, and not continued since.
func isStopped(pid int) bool {
	one, ok := processOf(pid)
	return ok && one.stopped
}

// startedField is the place of starttime among the fields after the name.
const startedField = 19

// parseStat reads "pid (name) state ppid pgrp ...", where the name may hold
// anything, parentheses and spaces too.
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
