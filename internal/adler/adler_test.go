package adler

import (
	"bytes"
	"fmt"
	"hash/adler32"
	"math/rand/v2"
	"testing"
)

// filled returns n bytes: all 255, which fills lanes and sums most, or random ones.
func filled(n int, full bool) []byte {
	if full {
		return bytes.Repeat([]byte{0xff}, n)
	}
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(b)
	return b
}

// Every length up to a few groups, and lengths around reduceBytes (adler-A1).
func TestSumsAreThoseOfTheStandardLibrary(t *testing.T) {
	lengths := []int{reduceBytes - 1, reduceBytes, reduceBytes + 1, 3*reduceBytes + 12345}
	for n := range 3*groupBytes + 20 {
		lengths = append(lengths, n)
	}
	for _, full := range []bool{true, false} {
		for _, n := range lengths {
			b := filled(n, full)
			if got, want := Checksum(b), adler32.Checksum(b); got != want {
				t.Fatalf("%d bytes, full %v: %08x, not %08x", n, full, got, want)
			}
		}
	}
}

func FuzzSums(f *testing.F) {
	f.Add([]byte("Wikipedia"), uint(3))
	f.Add(filled(groupBytes+9, true), uint(groupBytes))
	f.Fuzz(func(t *testing.T, b []byte, at uint) {
		at %= uint(len(b) + 1)
		if got, want := Update(Checksum(b[:at]), b[at:]), adler32.Checksum(b); got != want {
			t.Fatalf("%x at %d: %08x, not %08x", b, at, got, want)
		}
	})
}

func BenchmarkChecksum(b *testing.B) {
	for _, n := range []int{40, 160, 64 << 10} {
		data := filled(n, false)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				Checksum(data)
			}
		})
		b.Run(fmt.Sprintf("standard-%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			for b.Loop() {
				adler32.Checksum(data)
			}
		})
	}
}
