//go:build race

package secure

// raceFactor is the factor by which the race detector increases memory use.
const raceFactor = 2
