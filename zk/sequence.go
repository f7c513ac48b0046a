package zk

import (
	"fmt"
	"strconv"
)

// SequenceDigits is the least number of characters of the number that a server appends to the
// name of a sequential znode.
const SequenceDigits = 10

// ParseSequence reads such a number, and returns false for anything else. The server's counter of
// a parent is an int32 that wraps around: its numbers then have a minus sign, which is one of the
// ten characters or an eleventh.
func ParseSequence(digits string) (int32, bool) {
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), err == nil && fmt.Sprintf("%0*d", SequenceDigits, n) == digits
}
