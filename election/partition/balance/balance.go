// Package balance decides which member of a group owns which partition.
//
// In go the members and which owns what now, out comes which should own what,
// and which partitions may change hands at once. It is a function of its
// arguments: members that see the same decide the same, so nobody has to
// coordinate them. What always holds:
//
//	balance-B1  Every partition has a member to own it, if there are members.
//	balance-B2  What two members should own differs by at most one partition.
//	balance-B3  Of a member's partitions only those above its share go
//	            elsewhere, and the shares are chosen so that the fewest go. Once
//	            this is carried out, nothing goes any more.
//	balance-B4  Carried out in part and decided again, it needs no more moves in
//	            all.
//	balance-B5  No partition is taken from its owner while as many as the limit
//	            have none: those that are on their way count.
package balance

import (
	"cmp"
	"maps"
	"slices"
)

// Nobody owns a partition.
const Nobody = ""

// Plan returns the member that should own each partition. The members have
// names that differ, in any order; owners that are no members are leaving. It
// returns Nobody for each when there are no members.
func Plan(members, owners []string) []string {
	targets := make([]string, len(owners))
	if len(members) == 0 {
		return targets
	}
	vacancy := shares(members, owners)
	var free []int
	for p, owner := range owners {
		if vacancy[owner] == 0 {
			free = append(free, p)
			continue
		}
		vacancy[owner]--
		targets[p] = owner
	}
	for i, member := range takers(vacancy) {
		targets[free[i]] = member
	}
	return targets
}

// shares returns how many partitions each member should own. The larger shares
// go to those that own most (balance-B3).
func shares(members, owners []string) map[string]int {
	owned := make(map[string]int, len(members))
	for _, owner := range owners {
		owned[owner]++
	}
	ranked := slices.Clone(members)
	slices.SortFunc(ranked, func(a, b string) int {
		return cmp.Or(cmp.Compare(owned[b], owned[a]), cmp.Compare(a, b))
	})
	vacancy := make(map[string]int, len(members))
	for rank, member := range ranked {
		vacancy[member] = len(owners) / len(members)
		if rank < len(owners)%len(members) {
			vacancy[member]++
		}
	}
	return vacancy
}

// takers returns the members that have vacancies, each as often as it has them: always the one
// with the most left, the first by name of several.
func takers(vacancy map[string]int) []string {
	var takers []string
	names, most := slices.Sorted(maps.Keys(vacancy)), slices.Max(slices.Collect(maps.Values(vacancy)))
	for left := most; left > 0; left-- {
		for _, member := range names {
			if vacancy[member] >= left {
				takers = append(takers, member)
			}
		}
	}
	return takers
}

// Moves returns the partitions that their owners should hand over now, in order:
// at most limit, less those that nobody owns (balance-B5).
func Moves(owners, targets []string, limit int) []int {
	var moves []int
	for p, owner := range owners {
		switch {
		case owner == Nobody:
			limit--
		case owner != targets[p] && targets[p] != Nobody:
			moves = append(moves, p)
		}
	}
	return moves[:max(0, min(limit, len(moves)))]
}
