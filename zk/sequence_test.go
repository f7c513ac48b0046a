package zk

import (
	"fmt"
	"math"
	"testing"
)

func TestNumbersOfSequentialZnodesAreReadAcrossTheWrap(t *testing.T) {
	for _, n := range []int32{0, 1, 999_999_999, math.MaxInt32, math.MinInt32, -1_000_000_000, -999_999_999, -1} {
		text := fmt.Sprintf("%010d", n) // as servers write it
		if got, ok := ParseSequence(text); !ok || got != n {
			t.Errorf("%s is read as %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "1", "00000000001", "+000000001", "2147483648", "-0000000001", "-000000000", "000000000a"} {
		if n, ok := ParseSequence(text); ok {
			t.Errorf("%q is read as %d", text, n)
		}
	}
}
