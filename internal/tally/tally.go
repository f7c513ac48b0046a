// Package tally holds the counters behind metrics: how often each whole number was
// seen, and how often each name.
//
// Nothing here is safe for concurrent use, reads a clock or allocates for each number: the
// owner of the totals locks them and defines the unit of the numbers. Everything is
// bounded: a distribution has a fixed size, and names beyond NamesMax, longer than
// NameBytesMax or not UTF-8 are counted together.
package tally

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Buckets is the number of buckets for whole numbers up to 2^40: four for each power of
// two, so the ends of a bucket differ by a quarter at most. Larger numbers are in the
// last bucket.
const Buckets = 4 * 40

// Distribution counts how often each whole number, 0 or more, was seen. The zero value is
// empty.
type Distribution struct {
	Count, Sum int64
	Buckets    [Buckets]int64
}

// Note counts the number v n times; a negative number counts as 0 in the buckets.
func (d *Distribution) Note(v int64, n int) {
	d.Count += int64(n)
	d.Sum += v * int64(n)
	d.Buckets[BucketOf(v)] += int64(n)
}

// Add adds the counts of another distribution.
func (d *Distribution) Add(o *Distribution) {
	d.Count += o.Count
	d.Sum += o.Sum
	for i := range d.Buckets {
		d.Buckets[i] += o.Buckets[i]
	}
}

// Sub subtracts an earlier state of the same totals.
func (d *Distribution) Sub(earlier *Distribution) {
	d.Count -= earlier.Count
	d.Sum -= earlier.Sum
	for i := range d.Buckets {
		d.Buckets[i] -= earlier.Buckets[i]
	}
}

// Quantile estimates the number below which the share q of the numbers is, as the
// middle of its bucket. It is NaN for an empty distribution.
func (d *Distribution) Quantile(q float64) float64 {
	if d.Count == 0 {
		return math.NaN()
	}
	rank, below := int64(math.Ceil(q*float64(d.Count))), int64(0)
	for i, n := range d.Buckets {
		if below += n; below >= max(1, rank) {
			return float64(BucketStart(i)+BucketStart(i+1)-1) / 2
		}
	}
	return math.NaN()
}

// Text lists the buckets that are not empty, by their least numbers, such as
// "4:12,1000:3"; "-" stands for an empty distribution.
func (d *Distribution) Text() string {
	var b strings.Builder
	for i, n := range d.Buckets {
		if n != 0 {
			fmt.Fprintf(&b, ",%d:%d", BucketStart(i), n)
		}
	}
	if b.Len() == 0 {
		return "-"
	}
	return b.String()[1:]
}

// ParseDistribution parses the result of Text, which has no sum: the sum is 0.
func ParseDistribution(text string) (Distribution, error) {
	var d Distribution
	if text == "-" {
		return d, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		left, right, _ := strings.Cut(part, ":")
		start, bad := strconv.ParseInt(left, 10, 64)
		n, err := strconv.ParseInt(right, 10, 64)
		if bad != nil || err != nil || n < 0 || d.Count+n < d.Count {
			return Distribution{}, fmt.Errorf("tally: %q is no bucket with its count", part)
		}
		d.Count += n
		d.Buckets[BucketOf(start)] += n
	}
	return d, nil
}

// BucketOf returns the bucket of a number; negative ones count as 0.
func BucketOf(v int64) int {
	if v < 4 {
		return int(max(0, v))
	}
	power := bits.Len64(uint64(v)) - 1
	return min(4*(power-1)+int(v>>(power-2)&3), Buckets-1)
}

// BucketStart returns the least number of a bucket.
func BucketStart(bucket int) int64 {
	if bucket < 4 {
		return int64(bucket)
	}
	power := bucket/4 + 1
	return int64(4+bucket%4) << (power - 2)
}

// NamesMax is how many different names are counted.
const NamesMax = 1000

// NameBytesMax is the longest name that is counted on its own. Clients choose the names,
// even of znodes that do not exist, and counted names are kept for ever.
const NameBytesMax = 128

// Rest is the name under which all other names are counted: those beyond NamesMax, and
// those that are too long or not UTF-8. It cannot be the first name of a path, because
// that has no slash.
const Rest = "/"

// apart returns the name under which a name is counted. It must be UTF-8, because it is a label of
// metrics.
func apart(name string) string {
	if len(name) > NameBytesMax || !utf8.ValidString(name) {
		return Rest
	}
	return name
}

// Named is how often a name was counted, and the sum of the values counted with it.
type Named struct{ Count, Sum int64 }

// Names counts by name. The zero value is empty.
type Names struct{ of map[string]*Named }

// Note adds count and sum to those of a name. A new name is copied.
func (n *Names) Note(name string, count, sum int64) {
	name = apart(name)
	c := n.of[name]
	if c == nil && len(n.of) >= NamesMax {
		name = Rest
		c = n.of[name]
	}
	if c == nil {
		if n.of == nil {
			n.of = map[string]*Named{}
		}
		c = &Named{}
		n.of[strings.Clone(name)] = c
	}
	c.Count += count
	c.Sum += sum
}

// Clone returns an independent copy.
func (n *Names) Clone() Names {
	out := Names{of: make(map[string]*Named, len(n.of))}
	for name, c := range n.of {
		copied := *c
		out.of[name] = &copied
	}
	return out
}

// All returns a copy of the totals by name.
func (n *Names) All() map[string]Named {
	all := make(map[string]Named, len(n.of))
	for name, c := range n.of {
		all[name] = *c
	}
	return all
}

// Namespace returns the first name of a path, "" for the root. ZooKeeper calls it the top
// namespace. It aliases the path. A name that is too long, or not UTF-8, is Rest.
func Namespace(path string) string {
	if path == "" || path[0] != '/' {
		return ""
	}
	name := path[1:]
	if at := strings.IndexByte(name, '/'); at >= 0 {
		name = name[:at]
	}
	return apart(name)
}
