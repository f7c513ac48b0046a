// Package balance decides which member of a group owns which partition.
//
// From the members and what each of them owns now, it computes what each should own, and which
// partitions may move at once. The result depends only on the arguments: members that see the same
// state decide the same, so they need no coordinator. What always holds:
//
//	balance-B1  Every partition is assigned to a member, if there are members.
//	balance-B2  The numbers of partitions that two members should own differ by at most one.
//	balance-B3  A member loses only the partitions above its share, and the shares are chosen so
//	            that as few as possible move. Once the plan is carried out, nothing moves any
//	            more.
//	balance-B4  A plan that is carried out in part and then computed again needs no more moves in
//	            total.
//	balance-B5  No partition is taken from its owner while as many partitions as the limit have no
//	            owner: those that are moving count.
package balance

import (
	"cmp"
	"maps"
	"slices"
)

// Nobody is the owner of a partition that has none.
const Nobody = ""

// Plan returns the member that should own each partition. The members' names are distinct and in
// any order; owners that are not members are leaving. Without members, Plan returns Nobody for each
// partition.
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

// shares returns how many partitions each member should own. The larger shares go to the members
// that own the most (balance-B3).
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

// takers returns the members that have vacancies, each as often as it has vacancies: always the
// member with the most left, and among several the first by name.
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

// Moves returns the partitions that their owners should hand over now, in order: at most limit,
// minus the number of partitions without an owner (balance-B5).
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
