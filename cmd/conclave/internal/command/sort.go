package command

import "sort"

// sortBy sorts what is shown, and leaves equal ones as they are. All types share one copy of the sort:
// slices.SortFunc has one for each, of 12 KB (docs/decisions/0042).
func sortBy[T any](all []T, compare func(a, b T) int) {
	sort.SliceStable(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
}
