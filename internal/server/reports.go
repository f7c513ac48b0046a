package server

import "sync"

// reports lets one report of a kind be there at a time: it is made for all who have asked
// before it began, and the next one not until the last of them has released it. So what
// reports take in memory does not depend on how many ask, and all of them are told what was
// so after they asked.
type reports struct {
	mu sync.Mutex
	of map[string]*kind
}

// kind is the place of the reports of one kind.
type kind struct {
	place sync.Mutex // of the one that is being made, or that somebody still has
	next  *report    // of all who ask now; nil for none
}

// report is one of them.
type report struct {
	once  sync.Once
	text  string
	users int // who have it, or wait for it
}

// Report returns a report of a kind, and what releases it, which must be called: others wait
// for that. Beginning and end of write are between the call and the return.
func (s *Server) Report(name string, write func() string) (text string, release func()) {
	a := &s.reports
	a.mu.Lock()
	k := a.of[name]
	if k == nil {
		k = &kind{}
		if a.of == nil {
			a.of = map[string]*kind{}
		}
		a.of[name] = k
	}
	if k.next == nil {
		k.next = &report{}
	}
	r := k.next
	r.users++
	a.mu.Unlock()
	r.once.Do(func() {
		k.place.Lock()
		a.mu.Lock()
		k.next = nil // who asks from now on has the next one
		a.mu.Unlock()
		r.text = write()
	})
	return r.text, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.users--; r.users == 0 {
			k.place.Unlock()
		}
	}
}
