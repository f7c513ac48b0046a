package adminport

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Bounds of long answers. Each may contain 64 MiB of paths.
const (
	longMax   = 2           // in memory at one time
	longBytes = 1 << 20     // an answer with more bytes is long
	longWait  = time.Second // how long a request waits for its place
)

const othersRead = "long answers are still being sent to others: ask again in a few seconds"

// place is the right to have a long answer in memory, from before the answer is made until
// it was written (adminport-P5). The goroutine that makes the answer and the one that
// writes it share it, because on a timeout the second ends before the first.
type place struct {
	all chan struct{} // shared by all requests

	mu    sync.Mutex
	users int
	taken bool
}

type placeKey struct{}

// withPlaces gives each request a place to take; the place is released when the whole
// answer was written.
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

// take waits for a place if the answer has none yet, and reports whether it has one.
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

// leave releases the place if nobody else uses it.
func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 && p.taken {
		p.taken = false
		<-p.all
	}
}
