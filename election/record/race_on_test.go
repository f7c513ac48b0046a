//go:build race

package record_test

// underRace: the detector gives up after some millions of events in one process.
const underRace = true
