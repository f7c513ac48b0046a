package adminport

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Bounds of long answers: each may have 64 MiB of paths.
const (
	longMax   = 2           // that are in memory at one time
	longBytes = 1 << 20     // from how many bytes an answer is long
	longWait  = time.Second // for which one waits for its place
)

const othersRead = "long answers are still being sent to others: ask again in a few seconds"

// place is that of a long answer, from before it is made until it was written (adminport-P5). It
// is shared by the goroutine that makes the answer and the one that writes it: where that takes too long, the one ends
// before the other.
type place struct {
	all chan struct{} // of all requests

	mu    sync.Mutex
	users int
	taken bool
}

type placeKey struct{}

// withPlaces gives each request the right to a place, until all of its answer was written.
func withPlaces(handler http.Handler) http.Handler {
	all := make(chan struct{}, longMax)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &place{all: all}
		p.use()
		defer p.leave()
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), placeKey{}, p)))
	})
}

func placeOf(r *http.Request) *place { return r.Context().Value(placeKey{}).(*place) }

func (p *place) use() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
}

// take reports whether the answer has a place: it waits for one, if it has none.
func (p *place) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken {
		return true
	}
	late := time.NewTimer(longWait)
	defer late.Stop()
	select {
	case p.all <- struct{}{}:
		p.taken = true
	case <-late.C:
	}
	return p.taken
}

// leave releases the place, if nobody else uses it.
func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 && p.taken {
		p.taken = false
		<-p.all
	}
}
