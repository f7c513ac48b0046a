//go:build race

package server

// underRace is true if the race detector is on. It makes a storm take ten times
// as long.
const underRace = true
