package lab

import (
	"maps"
	"slices"
)

// algorithms are the algorithms that a world may run.
var algorithms = map[string]struct {
	title string
	make  func(w *World) system
}{
	"raft":     {"Raft: terms, votes of a majority, leases", newMembers("raft")},
	"bully":    {"Bully: the highest id that is alive", newMembers("bully")},
	"ring":     {"Ring (Chang and Roberts): the highest id that comes around", newMembers("ring")},
	"lowest":   {"Lowest id: the first that is alive", newMembers("lowest")},
	"zab":      {"Zab: fast leader election and a replicated log, as in ZooKeeper", newEnsemble},
	"lease":    {"Lease on a store, with fencing tokens", newLeases(true)},
	"unfenced": {"Lease on a store, without fencing", newLeases(false)},
}

// Algorithms returns the names of the algorithms, sorted.
func Algorithms() []string { return slices.Sorted(maps.Keys(algorithms)) }

// Title returns a short description of an algorithm, empty for an unknown one.
func Title(algorithm string) string { return algorithms[algorithm].title }
