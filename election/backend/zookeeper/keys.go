package zookeeper

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/zk"
)

// Parts of a candidate's name. They are those of Curator's protected creates and of its
// LeaderLatch.
const (
	protectedMark = "_c_"
	priorityMark  = "-p"
	latchMark     = "-latch-"
	kazooMark     = "__lock__" // of kazoo's Lock and Election
)

const hexDigits = "0123456789ABCDEF"

// parent returns the znode of an election: its name as one segment. The slash, the percent
// sign and everything but plain ASCII become %XX.
func (s *store) parent(name string) string {
	var out strings.Builder
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == '/' || c == '%' {
			out.WriteByte('%')
			out.WriteByte(hexDigits[c>>4])
			out.WriteByte(hexDigits[c&15])
		} else {
			out.WriteByte(c)
		}
	}
	return zk.JoinPath(s.options.Root, out.String())
}

// unescape turns a segment back into the name of an election.
func unescape(segment string) string {
	name, err := url.PathUnescape(segment)
	if err != nil {
		return segment
	}
	return name
}

// prefix returns the beginning of the names of a claim's znodes. Curator's names have no
// priority, so the priority identifies a candidate of this package.
func prefix(claim election.Claim) string {
	return protectedMark + guid(claim.Nonce) + priorityMark + strconv.Itoa(claim.Priority) + latchMark
}

// priority returns the priority of a candidate of this package, and false for one of
// another client.
func priority(name string) (int, bool) {
	head, _, _ := strings.Cut(name, latchMark)
	_, digits, ok := strings.Cut(head, priorityMark)
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	return number, err == nil
}

// guid formats 32 digits like Curator's ids, because Curator takes the first 36 characters
// after its mark for an id.
func guid(nonce string) string {
	if len(nonce) != 32 {
		return nonce
	}
	return nonce[:8] + "-" + nonce[8:12] + "-" + nonce[12:16] + "-" + nonce[16:20] + "-" + nonce[20:]
}

// candidates returns the children that are candidates, in the order of their numbers.
func candidates(children []string) []string {
	queue := slices.DeleteFunc(slices.Clone(children), func(name string) bool {
		_, ok := sequence(name)
		return !ok
	})
	slices.SortFunc(queue, func(a, b string) int {
		x, _ := sequence(a)
		y, _ := sequence(b)
		// The server's counter is an int32 that wraps around. The difference wraps too, and
		// is right as long as two candidates are less than 2^31 creates apart.
		return int(x - y)
	})
	return queue
}

// sequence returns the number that the server gave to a name.
func sequence(name string) (int32, bool) {
	mark := latchMark
	at := strings.LastIndex(name, mark)
	if at < 0 {
		mark = kazooMark
		at = strings.LastIndex(name, mark)
	}
	if at < 0 {
		return 0, false
	}
	return zk.ParseSequence(name[at+len(mark):])
}
