package balance

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

const (
	partitionsMax = 5
	membersMax    = 4
)

// every calls f for every group of four members and every way in which some partitions can be owned
// by some of the four, by a member that leaves, or by nobody.
func every(t *testing.T, f func(t *testing.T, members, owners []string)) {
	names := []string{Nobody, "a", "b", "c", "d", "leaving"}
	for n := range partitionsMax + 1 {
		owners := make([]string, n)
		var fill func(p int)
		fill = func(p int) {
			if p < n {
				for _, name := range names {
					owners[p] = name
					fill(p + 1)
				}
				return
			}
			for m := 1; m <= membersMax; m++ {
				f(t, names[1:1+m], owners)
			}
		}
		fill(0)
	}
}

func count(members, owners []string) (owned []int) {
	for _, m := range members {
		n := 0
		for _, owner := range owners {
			if owner == m {
				n++
			}
		}
		owned = append(owned, n)
	}
	return owned
}

// mustMove returns the smallest number of partitions that must leave their owners so that no two
// members differ by more than one. It tries every choice of larger shares.
func mustMove(members, owners []string) int {
	owned := count(members, owners)
	small, larger := len(owners)/len(members), len(owners)%len(members)
	fewest := len(owners) + 1
	for choice := range 1 << len(members) {
		moves, chosen := 0, 0
		for i, n := range owned {
			share := small + choice>>i&1
			chosen += choice >> i & 1
			moves += max(0, n-share)
		}
		if chosen == larger {
			fewest = min(fewest, moves)
		}
	}
	return fewest
}

func differences(members, owners, targets []string) (n int) {
	for p, owner := range owners {
		if owner != targets[p] && slices.Contains(members, owner) {
			n++
		}
	}
	return n
}

// balance-B1, balance-B2 and balance-B3, in every situation of up to five partitions and four members.
func TestPlanIsWholeEvenAndMovesTheFewest(t *testing.T) {
	situations := 0
	every(t, func(t *testing.T, members, owners []string) {
		situations++
		targets := Plan(members, owners)
		owned := count(members, targets)
		sum := 0
		for _, n := range owned {
			sum += n
		}
		if sum != len(owners) {
			t.Fatalf("members %q, owners %q: targets %q", members, owners, targets)
		}
		if slices.Max(owned)-slices.Min(owned) > 1 {
			t.Fatalf("members %q, owners %q: uneven targets %q", members, owners, targets)
		}
		if got, want := differences(members, owners, targets), mustMove(members, owners); got != want {
			t.Fatalf("members %q, owners %q: %d moves to %q, %d would do", members, owners, got, targets, want)
		}
		if again := Plan(members, targets); !slices.Equal(again, targets) {
			t.Fatalf("members %q: %q is moved on to %q", members, targets, again)
		}
	})
	t.Logf("%d situations", situations)
}

// balance-B4: whichever partition changes hands first, with a time without an owner or directly, no
// more partitions have to move than before.
func TestPlanCarriedOutInAnyOrderNeedsNoMoreMoves(t *testing.T) {
	every(t, func(t *testing.T, members, owners []string) {
		targets := Plan(members, owners)
		before := differences(members, owners, targets)
		for p, owner := range owners {
			if owner == targets[p] {
				continue
			}
			moved := 0
			if slices.Contains(members, owner) {
				moved = 1
			}
			for _, next := range []string{Nobody, targets[p]} {
				now := slices.Clone(owners)
				now[p] = next
				if left := differences(members, now, Plan(members, now)); left > before-moved {
					t.Fatalf("members %q, owners %q: after %d went to %q, %d moves instead of %d",
						members, owners, p, next, left, before-moved)
				}
			}
		}
	})
}

// balance-B5, and moves come to an end whatever the limit is.
func TestMovesKeepToTheLimitAndEnd(t *testing.T) {
	every(t, func(t *testing.T, members, owners []string) {
		for limit := 1; limit <= 2; limit++ {
			now := slices.Clone(owners)
			for steps := 0; ; steps++ {
				targets := Plan(members, now)
				if slices.Equal(now, targets) {
					break
				}
				moves, free := Moves(now, targets, limit), 0
				for p, owner := range now {
					if owner == Nobody {
						free++
						now[p] = targets[p] // the member that should own it takes it
					}
				}
				if len(moves) > max(0, limit-free) || free == 0 && len(moves) == 0 || steps > 2*len(owners) {
					t.Fatalf("members %q, owners %q, limit %d: step %d: moves %v with %d free", members, now, limit, steps, moves, free)
				}
				for _, p := range moves {
					now[p] = Nobody
				}
			}
		}
	})
}

func TestWithoutMembersNobodyOwnsAnything(t *testing.T) {
	owners := []string{"gone", Nobody}
	targets := Plan(nil, owners)
	if !slices.Equal(targets, []string{Nobody, Nobody}) || len(Moves(owners, targets, 5)) != 0 {
		t.Errorf("targets %q", targets)
	}
}

func ExamplePlan() {
	owners := []string{"a", "a", "a", "b", "b", "b"}
	targets := Plan([]string{"a", "b", "c"}, owners)
	fmt.Println(targets)
	fmt.Println(Moves(owners, targets, 1))
	// Output:
	// [a a c b b c]
	// [2]
}

// planOneByOne is Plan as it is documented: each partition goes to the member with the most
// vacancies.
func planOneByOne(members, owners []string) []string {
	targets := make([]string, len(owners))
	vacancy := shares(members, owners)
	for _, kept := range []bool{true, false} {
		for p, owner := range owners {
			switch {
			case kept && vacancy[owner] > 0:
				targets[p] = owner
			case kept || targets[p] != Nobody:
				continue
			default:
				for _, member := range members {
					if best := targets[p]; best == Nobody || cmp.Or(cmp.Compare(vacancy[best], vacancy[member]), cmp.Compare(member, best)) < 0 {
						targets[p] = member
					}
				}
			}
			vacancy[targets[p]]--
		}
	}
	return targets
}

// Members of two versions decide the same.
func TestPlanGoesToTheMostVacancy(t *testing.T) {
	every(t, func(t *testing.T, members, owners []string) {
		if got, want := Plan(members, owners), planOneByOne(members, owners); !slices.Equal(got, want) {
			t.Fatalf("members %q, owners %q: targets %q, want %q", members, owners, got, want)
		}
	})
}

// A member plans after each change: ten thousand partitions must not take it a second, however many
// members there are.
func TestPlanOfManyMembersCostsLittleMore(t *testing.T) {
	cost := func(n int) time.Duration {
		members, owners, best := make([]string, n), make([]string, 10_000), time.Duration(math.MaxInt64)
		for i := range members {
			members[i] = fmt.Sprintf("member-%04d", i)
		}
		for range 5 {
			began := time.Now()
			Plan(members, owners)
			best = min(best, time.Since(began))
		}
		return best
	}
	if few, many := cost(10), cost(1000); many > 25*few {
		t.Errorf("%v for 10 members, %v for 1000", few, many)
	}
}
