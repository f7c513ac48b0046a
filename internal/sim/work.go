package sim

import (
	"fmt"
	"strings"
)

// Work is what the clients of a run do besides registers, sequences, ephemerals and names
// used once. It is a set of parts, so a failing run can be made smaller.
type Work uint8

// The parts of the work, each in a file of its own.
const (
	WorkDirs    Work = 1 << iota // directories deleted and made again with other children
	WorkRights                   // ACLs, and refusals because of them
	WorkQuota                    // quotas, soft and hard
	WorkReaped                   // containers and znodes with a TTL
	WorkWatches                  // persistent and recursive watches
	WorkBytes                    // data that looks like a log that a crash tore

	workAll Work = 1<<iota - 1
)

var workNames = []string{"dirs", "rights", "quota", "reaped", "watches", "bytes"}

// parts returns the single parts of a set.
func (k Work) parts() []Work {
	var all []Work
	for part := Work(1); part <= workAll; part <<= 1 {
		if k&part != 0 {
			all = append(all, part)
		}
	}
	return all
}

// String names the parts.
func (k Work) String() string {
	var names []string
	for i, name := range workNames {
		if k>>i&1 == 1 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

// MarshalText implements encoding.TextMarshaler, for plans in files.
func (k Work) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Work) UnmarshalText(text []byte) error {
	*k = 0
	for part := range strings.SplitSeq(string(text), "+") {
		found := part == ""
		for i, name := range workNames {
			if name == part {
				*k, found = *k|1<<i, true
			}
		}
		if !found {
			return fmt.Errorf("no part of the work is called %q", part)
		}
	}
	return nil
}

// drawWork draws what clients do, and how snapshots are taken.
func (p *Plan) drawWork(r *random) {
	for part := Work(1); part < WorkBytes; part <<= 1 {
		if r.percent(60) {
			p.Work |= part
		}
	}
	p.ReapMs = []int64{100, 500, 5000}[r.below(3)]
	p.Portions = []int{1, 3, 8, 20}[r.below(4)]
	p.SnapSlow = []int64{1, 1, 5, 40}[r.below(4)]
}

// drawBytes draws whether clients write data that looks like damage.
func (p *Plan) drawBytes(r *random) {
	if r.percent(40) {
		p.Work |= WorkBytes
	}
}

// does returns the work of a run. If the ensemble changes, everybody is the super user at
// times, because only the super user may ask for a change; so nobody is refused then.
func (p *Plan) does() Work {
	if p.Reconfig {
		return p.Work &^ WorkRights
	}
	return p.Work
}

// works continues one of the parts of the work; it returns false if there is none, or if it
// is the turn of what every run does.
func (p *program) works() bool {
	parts := p.parts
	if len(parts) == 0 || !p.c.random.oneIn(2) {
		return false
	}
	switch parts[p.c.random.below(len(parts))] {
	case WorkDirs:
		p.dirs()
	case WorkRights:
		p.rights()
	case WorkQuota:
		p.quota()
	case WorkReaped:
		p.reaped()
	case WorkWatches:
		p.watches()
	case WorkBytes:
		p.bytes()
	}
	return true
}
