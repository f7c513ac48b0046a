package command

import "sort"

// sortBy sorts stably. All types share one copy of the sort: slices.SortFunc would have one
// of 12 KB for each type (docs/decisions/0042).
func sortBy[T any](all []T, compare func(a, b T) int) {
	sort.SliceStable(all, func(i, j int) bool { return compare(all[i], all[j]) < 0 })
}
