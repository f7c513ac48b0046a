//go:build race

package server

// underRace: the detector makes a storm ten times as long.
const underRace = true
