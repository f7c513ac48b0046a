//go:build !race

package secure

// raceFactor is how many times the memory the race detector takes.
const raceFactor = 1
