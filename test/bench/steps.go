//go:build linux

package main

import (
	"strings"
	"time"
)

// A step is a part of the processing of a request, defined by functions of which one is on
// the stack.
type step struct {
	name      string
	functions []string
}

// steps are the possible steps of a sample, in the order in which they are tried: first the
// garbage collector and snapshots, whatever they call; then the runtime, wherever it is
// called, and the kernel; then work for callers, and last the callers.
var steps = []step{
	{"garbage collector", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcMark"}},
	{"snapshots", []string{"internal/snap.", "tree.(*Scan)", "replicadisk.(*Snapshot)"}},
	{"fdatasync", []string{"syscall.Fdatasync"}},
	{"write to the log", []string{"vfs/osfs.(*file).Write", "vfs/osfs.(*file).WriteAt"}},
	{"read from sockets", []string{"server.readSocket"}},
	{"write to sockets", []string{"server.writeSocket", "net.(*conn).Write", "(*TCPConn).Write"}},
	{"write to servers", []string{"peernet.writeSocket"}},
	{"wake-ups", []string{"runtime.ready", "runtime.goready", "runtime.wakep", "runtime.startm", "runtime.futexwakeup", "runtime.injectglist", "runtime.newproc"}},
	{"scheduler", []string{"runtime.mcall", "runtime.schedule", "runtime.findRunnable", "runtime.mstart", "runtime.netpoll", "runtime.exitsyscall", "runtime.entersyscall", "runtime.reentersyscall"}},
	{"locks", []string{"sync.(*Mutex)", "sync.(*RWMutex)", "internal/sync.(*Mutex)"}},
	{"allocation", []string{"runtime.mallocgc", "runtime.newobject", "runtime.growslice"}},
	{"time of day", []string{"time.Now", "time.runtimeNow", "clock."}},
	{"digest", []string{"tree.statSum", "tree.BodySum", "tree.Checksum", "(*Tree).bodySum", "(*Tree).sumOf", "(*Tree).keepSum", "(*Tree).addDigest", "(*Tree).addDirectory", "(*Tree).subDigest", "(*Tree).checksum"}},
	{"checksum of the record", []string{"internal/adler.", "hash/crc32"}},
	{"decode requests", []string{"wire.Decode", "wire.FrameLength"}},
	{"encode replies", []string{"wire.Append"}},
	{"record of the transaction", []string{"internal/txn."}},
	{"log", []string{"internal/txnlog.", "internal/replicadisk.", "internal/datadir."}},
	{"watches", []string{"internal/watch.", "(*Replica).notify"}},
	{"decide", []string{"internal/prep.", "internal/auth.", "internal/acl."}},
	{"tree", []string{"internal/tree."}},
	{"order of transactions", []string{"internal/zab."}},
	{"sessions", []string{"internal/session."}},
	{"links to servers", []string{"internal/peernet.", "internal/peerwire.", "server.(*peers)"}},
	{"disk goroutine", []string{"server.(*Server).runDisk", "server.(*disk"}},
	{"replies: outboxes", []string{"server.(*outbox)", "server.(*conn).reply", "server.(*delivery)", "server.(*conn).flush"}},
	{"replica", []string{"internal/replica."}},
	{"connections", []string{"server.(*conn)", "server.(*input)", "server.(*Server).serveConn"}},
	{"loop", []string{"internal/server."}},
}

// otherStep is the step of all remaining samples.
const otherStep = "other"

func stepNames() []string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.name
	}
	return names
}

// stepOf returns the step of a stack.
func stepOf(stack []string) string {
	for _, s := range steps {
		for _, frame := range stack {
			for _, f := range s.functions {
				if strings.Contains(frame, f) {
					return s.name
				}
			}
		}
	}
	return otherStep
}

// bySteps adds up the output of "go tool pprof -traces": after each separator comes a
// stack, with the innermost function first.
//
//	-----------+-------------------------------------------------------
//	      10ms   runtime.futex
//	             runtime.futexwakeup
func bySteps(traces string) map[string]time.Duration {
	sums := map[string]time.Duration{}
	var value time.Duration
	var stack []string
	end := func() {
		if len(stack) > 0 {
			sums[stepOf(stack)] += value
		}
		stack = nil
	}
	for line := range strings.Lines(traces) {
		if strings.HasPrefix(line, "-----") {
			end()
			continue
		}
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
			continue
		case len(stack) > 0:
			stack = append(stack, fields[0])
		case len(fields) >= 2:
			if d, err := time.ParseDuration(fields[0]); err == nil {
				value, stack = d, fields[1:2]
			}
		}
	}
	end()
	return sums
}
