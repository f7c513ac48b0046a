//go:build !race

package client

const underRace = false
