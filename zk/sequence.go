package zk

import (
	"fmt"
	"strconv"
)

// SequenceDigits is the minimum length of the number that a server appends to the name of a
// sequential znode.
const SequenceDigits = 10

// ParseSequence parses the number that a server has appended, and returns false for anything else.
// The counter of a parent is an int32 that wraps around. Its numbers then have a minus sign, either
// as one of the ten characters or as an eleventh.
func ParseSequence(digits string) (int32, bool) {
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), err == nil && fmt.Sprintf("%0*d", SequenceDigits, n) == digits
}
