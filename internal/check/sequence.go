package check

import (
	"slices"
	"sort"
	"strconv"

	"github.com/conclave-project/conclave/zk"
)

const propertySequence = "sequence"

// digits is the length of the number at the end of a sequential name.
const digits = 10

// Sequences checks that each sequential create gets a name that no other has had under the
// same parent, and that the numbers follow the order of the transactions.
type Sequences struct {
	parents map[parentLife]*numbers
}

// parentLife is a parent from its creation to its deletion; a new one counts from the start
// again.
type parentLife struct {
	path  string
	czxid zk.Zxid
}

type numbers struct {
	at    map[int64]zk.Zxid
	order []numbered // by zxid
}

type numbered struct {
	zxid   zk.Zxid
	number int64
}

// NewSequences returns a checker without names.
func NewSequences() *Sequences { return &Sequences{parents: map[parentLife]*numbers{}} }

// Created says that a sequential create at zxid created path, under a parent that was
// created at parentCzxid. Calls may be in any order.
func (s *Sequences) Created(path string, parentCzxid, zxid zk.Zxid) error {
	if len(path) < digits {
		return broken(propertySequence, "%s has no number of %d digits", path, digits)
	}
	n, err := strconv.ParseInt(path[len(path)-digits:], 10, 32)
	if err != nil {
		return broken(propertySequence, "%s has no number of %d digits", path, digits)
	}
	key := parentLife{zk.ParentPath(path), parentCzxid}
	p := s.parents[key]
	if p == nil {
		p = &numbers{at: map[int64]zk.Zxid{}}
		s.parents[key] = p
	}
	if other, given := p.at[n]; given {
		return broken(propertySequence, "%s has the number %d at %s, which was given at %s", path, n, number(zxid), number(other))
	}
	p.at[n] = zxid
	i := sort.Search(len(p.order), func(i int) bool {
		o := p.order[i]
		return o.zxid > zxid || o.zxid == zxid && o.number > n
	})
	if i > 0 && p.order[i-1].number > n || i < len(p.order) && p.order[i].number < n {
		return broken(propertySequence, "%s has the number %d at %s, out of the order of transactions", path, n, number(zxid))
	}
	p.order = slices.Insert(p.order, i, numbered{zxid, n})
	return nil
}
