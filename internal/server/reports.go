package server

import "sync"

// reports allows one report of each kind at a time. It is made for everybody who has asked
// before it began, and the next one is not made until the last of them has released it. So the
// memory for reports does not depend on how many ask, and each answer is newer than its
// question.
type reports struct {
	mu sync.Mutex
	of map[string]*kind
}

// kind has the reports of one kind.
type kind struct {
	place sync.Mutex // held for the report that is being made, or is still in use
	next  *report    // for everybody who asks now; nil for none
}

// report is one report.
type report struct {
	once  sync.Once
	text  string
	users int // how many have it, or wait for it
}

// Report returns a report of a kind, and a function that releases it, which must be called
// because others wait for that. write begins and ends between the call and the return.
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
		k.next = nil // later callers get the next one
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
