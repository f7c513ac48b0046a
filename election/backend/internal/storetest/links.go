package storetest

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"
)

// Server is a store's server that can be restarted and stopped.
type Server interface {
	Restart(ctx context.Context) error
	Pause()
	Resume()
}

// Link is a connection to the server that can be cut and slowed.
type Link interface {
	Cut()
	CutRequests()
	CutReplies()
	Delay(requests, replies time.Duration)
	Reset()
	Heal()
}

// Links are the connections of several candidates to one server.
type Links struct {
	Server Server
	Links  []Link
}

// LinksTo returns the Links of a server; ways has one for each candidate.
func LinksTo[L Link](server Server, ways []L) Links {
	links := Links{Server: server}
	for _, way := range ways {
		links.Links = append(links.Links, way)
	}
	return links
}

// Isolate cuts all links while work runs, and then closes the connections.
func (l *Links) Isolate(work func()) {
	for _, link := range l.Links {
		link.Cut()
	}
	work()
	for _, link := range l.Links {
		link.Reset()
		link.Heal()
	}
}

// Faults returns the faults that every store is tested with: the server is killed and
// started again, or stopped for a while; a link is cut in one or both directions or slowed;
// connections are closed.
func (l *Links) Faults(lease time.Duration) map[string]func(*testing.T, *rand.Rand) {
	awhile := func(random *rand.Rand) { time.Sleep(time.Duration(random.Int64N(int64(5 * lease / 2)))) }
	one := func(random *rand.Rand) Link { return l.Links[random.IntN(len(l.Links))] }
	cut := func(how func(Link)) func(*testing.T, *rand.Rand) {
		return func(_ *testing.T, random *rand.Rand) {
			link := one(random)
			how(link)
			awhile(random)
			link.Heal()
		}
	}
	return map[string]func(*testing.T, *rand.Rand){
		"restart": func(t *testing.T, _ *rand.Rand) {
			if err := l.Server.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"pause": func(_ *testing.T, random *rand.Rand) {
			l.Server.Pause()
			awhile(random)
			l.Server.Resume()
		},
		"cut":         cut(Link.Cut),
		"cutRequests": cut(Link.CutRequests),
		"cutReplies":  cut(Link.CutReplies),
		"slow": cut(func(link Link) {
			link.Delay(lease/4, lease/4)
		}),
		"reset": func(_ *testing.T, random *rand.Rand) { one(random).Reset() },
	}
}
