package sim

import (
	"fmt"
	"strings"
)

// Work is what the clients of a run do besides registers, sequences, ephemerals
// and names used once: a set of parts, so that a failing run can be made smaller.
type Work uint8

// The parts of the work, each in a file of its own.
const (
	WorkDirs Work = 1 << iota // directories deleted and made again with other children

	workAll Work = 1<<iota - 1
)

var workNames = []string{"dirs"}

// parts are the single parts of a set.
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

// drawWork draws what clients do, and how a snapshot is taken.
func (p *Plan) drawWork(r *random) {
	for part := Work(1); part <= workAll; part <<= 1 {
		if r.percent(60) {
			p.Work |= part
		}
	}
	p.Portions = []int{1, 3, 8, 20}[r.below(4)]
	p.SnapSlow = []int64{1, 1, 5, 40}[r.below(4)]
}

// works has one of the parts of the work go on; false if there is none, or it is
// the turn of what every run does.
func (p *program) works() bool {
	parts := p.parts
	if len(parts) == 0 || !p.c.random.oneIn(2) {
		return false
	}
	switch parts[p.c.random.below(len(parts))] {
	case WorkDirs:
		p.dirs()
	}
	return true
}
