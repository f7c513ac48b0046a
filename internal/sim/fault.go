package sim

import (
	"fmt"
	"slices"
	"strings"
)

// Fault is something that goes wrong at a given time. The faults of a run are drawn before
// it begins, so each of them can be left out.
type Fault struct {
	AtMs  int64
	Kind  FaultKind
	A, B  int   // servers by their place, from 1 on, or clients; 0 is the leader at that moment
	ForMs int64 // how long it lasts
	N     int64 // what else the kind needs
}

// FaultKind says what goes wrong.
type FaultKind uint8

// The kinds, with the meaning of B and N.
const (
	FaultKill        FaultKind = iota // A's process is killed: what it has written stays
	FaultPower                        // A's machine loses power: what was not synced goes, N percent of it stays
	FaultPowerAll                     // all machines at once
	FaultCrashAtOp                    // A loses power at its Nth operation on the disk from now on; if B is 1, its process is killed there
	FaultCrashEpoch                   // A, or another server, next notes an epoch: it loses power right after that, and B starts; its leader goes with it if N is 1 or 2, and it is stopped in order if N is 2
	FaultPause                        // A's process stalls
	FaultCut                          // nothing goes from A to B
	FaultCutBoth                      // nor back
	FaultIsolate                      // A reaches no other server, and is reached by none; if N, the others see their connections break
	FaultSplit                        // the servers whose bit in N is set, and the others
	FaultReset                        // A's connections to other servers break
	FaultSlowNet                      // what A sends takes up to N ms
	FaultSlowDisk                     // each turn of A's disk takes up to N ms
	FaultFailSync                     // A's next sync fails; if B is 1, its Nth change of the disk from now on: a write, a sync, a name
	FaultFullDisk                     // A's disk has no more space
	FaultFlip                         // a byte on A's disk changes, then the process is killed
	FaultWipe                         // A comes back with an empty disk; if N, it meets those that were down, and not those that were up
	FaultRate                         // A's clock runs at N per mille
	FaultLeap                         // A's clocks leap N ms ahead
	FaultWall                         // A's wall clock is set N ms off
	FaultClientCut                    // client A and server B do not reach each other
	FaultClientPause                  // client A stalls; if N, its clock, too
	FaultClientKill                   // client A is gone for good, another comes
	FaultClientDrop                   // client A's connection breaks
	FaultReconfig                     // client A asks for another ensemble (reconfig.go); the leader loses power ForMs later, unless that is 0
	FaultFlipNewest                   // a byte in the newest segment of A's log changes, then the process is killed
	FaultReadError                    // one in N of the reads of A's disk fails; if N is even, the process is killed first
	FaultLostWrite                    // A's disk says that it has written and has not, once, then the process is killed; N%3: log, snapshot, epoch
	FaultStrayWrite                   // the same, and has written elsewhere in the file
	FaultStop                         // A's process is stopped in order: what its disk was given is written
	FaultRoll                         // all servers are stopped in order and started again, one after the other
	FaultDeaf                         // A receives from no other server, and goes on sending
	FaultForsake                      // the leader's process is killed and comes back at once: forsake.go; if N, only one that writes a snapshot is forsaken
	FaultMemory                       // A's tree gets what no transaction has made: memory.go
	FaultShortLog                     // A's process is killed, and the end of its log is gone; if N is odd, it meets those that were down, and not those that were up
	FaultSlowLoop                     // the loop of A's process is behind: behind.go
	FaultStray                        // who dials A reaches B, and the other way round: stray.go
	FaultOldCopy                      // A's directory is copied, and put back N/2 ms later: copy.go; if N is odd, it meets those that were down, and not those that were up
	FaultHang                         // A's disk does nothing: hang.go

	faultKinds
)

var faultNames = [faultKinds]string{
	"kill", "power", "power-all", "crash-at-op", "crash-epoch", "pause", "cut", "cut-both", "isolate", "split", "reset",
	"slow-net", "slow-disk", "fail-sync", "full-disk", "flip", "wipe", "rate", "leap", "wall", "client-cut",
	"client-pause", "client-kill", "client-drop", "reconfig", "flip-newest", "read-error", "lost-write", "stray-write",
	"stop", "roll", "deaf", "forsake", "memory", "short-log", "slow-loop", "stray", "old-copy", "hang",
}

// String names the kind.
func (k FaultKind) String() string { return faultNames[k] }

// MarshalText implements encoding.TextMarshaler, for plans in files.
func (k FaultKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *FaultKind) UnmarshalText(text []byte) error {
	at := slices.Index(faultNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("no kind of fault is called %q", text)
	}
	*k = FaultKind(at)
	return nil
}

// String is the fault as a line.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d ms: %v", f.AtMs, f.Kind)
	switch {
	case f.Kind == FaultPowerAll || f.Kind == FaultRoll || f.Kind == FaultForsake || f.Kind == FaultCrashEpoch && f.A == 0 || f.Kind == FaultSplit:
	case f.A == 0:
		b.WriteString(" leader")
	default:
		fmt.Fprintf(&b, " %d", f.A)
	}
	if f.B != 0 {
		fmt.Fprintf(&b, " %d", f.B)
	}
	if f.ForMs != 0 {
		fmt.Fprintf(&b, ", for %d ms", f.ForMs)
	}
	switch {
	case f.Kind == FaultReconfig:
		b.WriteString(partsText(f.N))
	case f.N != 0:
		fmt.Fprintf(&b, ", n=%d", f.N)
	}
	return b.String()
}

// Class is a group of kinds that a run has or does not have.
type Class uint8

// The classes.
const (
	ClassProcess Class = iota // kills and power losses
	ClassPause
	ClassNet
	ClassSlow
	ClassDisk // failing syncs, full disks
	ClassRot  // flipped bytes, lost disks
	ClassClock
	ClassClient
	ClassReconfig // drawn by itself, see Plan.reconfigs
	ClassForsake  // drawn by itself, see Plan.forsakes
	ClassBadDisk  // failing reads, bad writes, damage where the log grows
	ClassMemory   // drawn by itself, see Plan.memory
	ClassStray    // drawn by itself, see Plan.stray
	ClassLoop     // drawn by itself, see Plan.behind
	ClassCopy     // drawn by itself, see Plan.oldCopies
	ClassHang     // drawn by itself, see Plan.hangs

	classes
)

// String names the class.
func (c Class) String() string {
	return [classes]string{"process", "pause", "net", "slow", "disk", "rot", "clock", "client", "reconfig", "forsake", "bad-disk", "memory", "stray", "loop", "copy", "hang"}[c]
}

// kindsOf lists the kinds of each class; a kind that is listed twice is drawn twice as
// often.
var kindsOf = [classes][]FaultKind{
	ClassProcess:  {FaultKill, FaultKill, FaultPower, FaultPower, FaultPower, FaultPowerAll, FaultCrashAtOp, FaultCrashAtOp, FaultCrashEpoch, FaultCrashEpoch, FaultStop, FaultStop, FaultRoll},
	ClassPause:    {FaultPause},
	ClassNet:      {FaultCut, FaultCut, FaultCutBoth, FaultIsolate, FaultIsolate, FaultSplit, FaultReset, FaultReset, FaultDeaf},
	ClassSlow:     {FaultSlowNet, FaultSlowDisk},
	ClassDisk:     {FaultFailSync, FaultFullDisk},
	ClassRot:      {FaultFlip, FaultWipe},
	ClassClock:    {FaultRate, FaultLeap, FaultWall},
	ClassReconfig: {FaultReconfig},
	ClassForsake:  {FaultForsake},
	ClassClient:   {FaultClientCut, FaultClientPause, FaultClientKill, FaultClientDrop, FaultClientDrop},
	ClassBadDisk:  {FaultFlipNewest, FaultReadError, FaultReadError, FaultLostWrite, FaultStrayWrite, FaultShortLog},
	ClassMemory:   {FaultMemory},
	ClassStray:    {FaultStray},
	ClassLoop:     {FaultSlowLoop},
	ClassCopy:     {FaultOldCopy},
	ClassHang:     {FaultHang},
}

// classOf finds the class of a kind.
func classOf(k FaultKind) Class {
	for c := range classes {
		for _, kind := range kindsOf[c] {
			if kind == k {
				return c
			}
		}
	}
	return classes
}
