// Package middle computes the median of several measurements, which is what all benchmarks
// print.
package middle

import (
	"cmp"
	"slices"
)

// Of returns the median of values: for an even number the mean of the two in the middle,
// for none 0.
func Of[T interface {
	cmp.Ordered
	~int64 | ~float64
}](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
