package command

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// foreign is an election or a lock of another library, recognized by the names of its
// znodes, as JSON.
type foreign struct {
	Path    string   `json:"path"`
	Kind    string   `json:"kind"`    // latch or lock
	Library string   `json:"library"` // the library that uses such names
	Leader  string   `json:"leader"`  // the znode that leads or holds the lock
	Session string   `json:"session"` // and its session
	Waiting []string `json:"waiting"` // the znodes of the others, in order
}

// foreignMax bounds how many are shown.
const foreignMax = 500

// shapes are the names that libraries give to the ephemerals of their candidates: Curator's
// LeaderLatch, LeaderSelector and InterProcessMutex, kazoo's Election and Lock.
var shapes = []struct {
	kind, library string
	name          *regexp.Regexp
}{
	{"latch", "Curator", regexp.MustCompile(`^_c_[0-9a-f-]{36}-latch--?\d{9,10}$`)},
	{"lock", "Curator", regexp.MustCompile(`^_c_[0-9a-f-]{36}-lock--?\d{9,10}$`)},
	{"lock", "kazoo", regexp.MustCompile(`^[0-9a-f]{32}__lock__-?\d{9,10}$`)},
}

// rival is a candidate of another library.
type rival struct {
	name    string
	number  int32
	session zk.SessionID
}

// foreignElections finds the elections and locks of other libraries among the ephemerals of
// all sessions. The one with the lowest number leads.
func foreignElections(ephemerals map[zk.SessionID][]string) []foreign {
	type place struct {
		directory string
		shape     int
	}
	found := map[place][]rival{}
	for session, paths := range ephemerals {
		for _, at := range paths {
			directory, name := path.Split(at)
			for i := range shapes {
				if !shapes[i].name.MatchString(name) {
					continue
				}
				number, _ := sequenceOf(name)
				key := place{strings.TrimSuffix(directory, "/"), i}
				found[key] = append(found[key], rival{name, number, session})
				break
			}
		}
	}
	all := make([]foreign, 0, len(found))
	for at, rivals := range found {
		sortBy(rivals, func(a, b rival) int { return cmp.Or(int(a.number-b.number), cmp.Compare(a.name, b.name)) })
		one := foreign{Path: cmp.Or(at.directory, "/"), Kind: shapes[at.shape].kind, Library: shapes[at.shape].library,
			Leader: rivals[0].name, Session: rivals[0].session.String(), Waiting: []string{}}
		for _, c := range rivals[1:] {
			one.Waiting = append(one.Waiting, c.name)
		}
		all = append(all, one)
	}
	sortBy(all, func(a, b foreign) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Library, b.Library)) })
	return all[:min(len(all), foreignMax)]
}
