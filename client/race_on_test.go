//go:build race

package client

// underRace: the detector gives out after some millions of events in one process.
const underRace = true
