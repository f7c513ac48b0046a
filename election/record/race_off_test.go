//go:build !race

package record_test

const underRace = false
