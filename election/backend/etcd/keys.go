package etcd

import (
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The side keys. No election's queue can hold them: a queue's keys have a name
// after the prefix, and no name begins with a slash.
//
//	/conclave/line/NAME//LEASE     "0500 ID": priority and id of a candidate of ours
//	/conclave/nomination/NAME      whom the leader wants to lead next
//	/conclave/request/NAME         what an operator has asked of the leader
//	/conclave/history/NAME         the latest leaderships; never removed
//
// Two slashes end a name, which has no empty segment.
const sideRoot = "/conclave/"

func (b *Backend) lineKeys(name string) string {
	return b.options.Prefix + sideRoot + "line/" + name + "//"
}
func (b *Backend) nominationKey(name string) string {
	return b.options.Prefix + sideRoot + "nomination/" + name
}
func (b *Backend) requestKey(name string) string {
	return b.options.Prefix + sideRoot + "request/" + name
}
func (b *Backend) histories() string             { return b.options.Prefix + sideRoot + "history/" }
func (b *Backend) historyKey(name string) string { return b.histories() + name }

// queue returns the range of keys in which an election's candidates are, and
// little else: those of "a/b" and its like are between those of "a".
func (b *Backend) queue(name string) (from, end string) {
	start := b.options.Prefix + name + "/"
	return start + "0", start + "g"
}

func (b *Backend) candidate(name string, lease clientv3.LeaseID) string {
	return fmt.Sprintf("%s%s/%x", b.options.Prefix, name, int64(lease))
}

// isCandidate says whether a key out of the queue's range is a candidate of
// this very election.
func (b *Backend) isCandidate(name, key string) bool {
	return strings.Trim(strings.TrimPrefix(key, b.options.Prefix+name+"/"), "0123456789abcdef") == ""
}

// line returns the side key of the candidate whose key is given.
func (b *Backend) line(name, candidate string) string {
	return b.lineKeys(name) + candidate[strings.LastIndexByte(candidate, '/')+1:]
}

// lineValue and parseLine write and read the value of a line's key. Values
// compare as priorities do.
func lineValue(priority int, id string) string { return fmt.Sprintf("%04d %s", priority, id) }

func parseLine(value string) (priority int, id string) {
	number, id, _ := strings.Cut(value, " ")
	_, _ = fmt.Sscanf(number, "%d", &priority) // of no use to anybody if it is damaged
	return priority, id
}
