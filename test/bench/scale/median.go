//go:build linux

package scale

import (
	"cmp"
	"slices"
)

// middle is the median of values; of an even number the mean of the two in the middle.
func middle[T interface {
	cmp.Ordered
	~int64 | ~float64
}](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
