//go:build linux

package storetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/stores"
)

// Links are the ways of candidates to one server, each of which can be cut.
type Links struct {
	server *stores.Server
	links  []*servers.Link
}

// NewLinks opens so many.
func NewLinks(t testing.TB, server *stores.Server, count int) *Links {
	l := &Links{server: server}
	for range count {
		link, err := server.Link()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(link.Close)
		l.links = append(l.links, link)
	}
	return l
}

// Addrs are where candidates connect.
func (l *Links) Addrs() []string {
	var addrs []string
	for _, link := range l.links {
		addrs = append(addrs, link.Addr)
	}
	return addrs
}

// Isolate cuts all links while work goes on, and closes the connections.
func (l *Links) Isolate(work func()) {
	for _, link := range l.links {
		link.Cut()
	}
	work()
	for _, link := range l.links {
		link.Reset()
		link.Heal()
	}
}

// Faults are those that every store suffers: the server is killed and started,
// or stopped for a while; a link is cut in one or both directions, slowed, or
// its connections are closed.
func (l *Links) Faults(lease time.Duration) map[string]func(*testing.T, *rand.Rand) {
	awhile := func(random *rand.Rand) { time.Sleep(time.Duration(random.Int64N(int64(5 * lease / 2)))) }
	one := func(random *rand.Rand) *servers.Link { return l.links[random.IntN(len(l.links))] }
	cut := func(how func(*servers.Link)) func(*testing.T, *rand.Rand) {
		return func(_ *testing.T, random *rand.Rand) {
			link := one(random)
			how(link)
			awhile(random)
			link.Heal()
		}
	}
	return map[string]func(*testing.T, *rand.Rand){
		"restart": func(t *testing.T, _ *rand.Rand) {
			if err := l.server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"pause": func(_ *testing.T, random *rand.Rand) {
			l.server.Pause()
			awhile(random)
			l.server.Resume()
		},
		"cut":         cut((*servers.Link).Cut),
		"cutRequests": cut((*servers.Link).CutRequests),
		"cutReplies":  cut((*servers.Link).CutReplies),
		"slow": cut(func(link *servers.Link) {
			link.Delay(lease/4, lease/4)
		}),
		"reset": func(_ *testing.T, random *rand.Rand) { one(random).Reset() },
	}
}
