package sim

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
)

// weights draws whether groups and weights are used, and whether the log has a directory of
// its own: each in one run of eight. Most seeds up to knownSeeds are left alone, because
// tables and tests name them together with what was found there.
func (p *Plan) weights(r *random) {
	if p.Grouped = p.Seed%8 == 5; p.Grouped {
		p.Participants = max(p.Participants, 3)
		p.SplitDirs = r.oneIn(3)
	} else if p.Seed > knownSeeds {
		p.SplitDirs = r.oneIn(10)
	}
}

// knownSeeds is the highest seed that tables and tests name.
const knownSeeds = 1000

// weightLines returns the lines of a configuration that put its participants into up to
// three groups, with weights of which some are 0. A majority of servers may then be no
// quorum, and one server may be one. Now and then it returns no lines, and a plain majority
// counts.
func weightLines(participants []quorum.ID, r *random) (lines []string) {
	if len(participants) == 0 || r.oneIn(8) {
		return nil
	}
	groups := make([][]string, 1+r.below(3))
	weighed := false
	for at, id := range participants {
		weight := []int{0, 0, 1, 1, 1, 1, 2, 3}[r.below(8)]
		if at == len(participants)-1 && !weighed {
			weight = 1 // without any weight there is no quorum
		}
		weighed = weighed || weight > 0
		lines = append(lines, fmt.Sprintf("weight.%d=%d", id, weight))
		g := r.below(len(groups))
		groups[g] = append(groups[g], fmt.Sprint(id))
	}
	for g, members := range groups {
		if len(members) > 0 {
			lines = append(lines, fmt.Sprintf("group.%d=%s", g+1, strings.Join(members, ":")))
		}
	}
	return lines
}

// without reports whether the participants of a configuration are a quorum without some
// servers.
func without(c *ensemble.Config, gone func(quorum.ID) bool) bool {
	var rest quorum.IDs
	for _, id := range c.Participants() {
		if !gone(id) {
			rest.Add(id)
		}
	}
	return c.Quorum().Enough(rest)
}
