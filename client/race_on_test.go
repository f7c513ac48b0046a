//go:build race

package client

// underRace is true if the race detector is on. It gives out after some millions of
// events in one process.
const underRace = true
