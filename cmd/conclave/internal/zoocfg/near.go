package zoocfg

import "strings"

// nearest finds the known key that takes the fewest changes to reach from key; if there are
// several, the first alphabetically. Case does not count: clientport is a mistyped
// clientPort.
func nearest[V any](key string, table map[string]V) (string, int) {
	found, best := "", 1<<30
	for known := range table {
		d := distance(strings.ToLower(key), strings.ToLower(known))
		if d < best || d == best && known < found {
			found, best = known, d
		}
	}
	return found, best
}

// typoMax is how many changes may separate a mistyped key from the known one: none in very
// short keys, two in long ones.
func typoMax(key string) int {
	switch {
	case len(key) < 5:
		return 0
	case len(key) < 8:
		return 1
	}
	return 2
}

// distanceBytesMax bounds the work: a longer key is not considered near to any.
const distanceBytesMax = 128

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	if len(a) > distanceBytesMax || len(b) > distanceBytesMax {
		return 1 << 30
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
