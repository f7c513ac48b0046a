package storm

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Story is a record of what happens in a storm and of what is wrong. Its methods may be
// called at any time.
type Story struct {
	Began time.Time // in the bubble's time

	mu   sync.Mutex
	said []string
	why  string
}

// Say records what happens.
func (s *Story) Say(format string, args ...any) {
	line := fmt.Sprintf("%9.3f ", time.Since(s.Began).Seconds()) + fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, line)
	if *prints {
		fmt.Println(line)
	}
}

// Breach records what is wrong.
func (s *Story) Breach(format string, args ...any) {
	s.Say("BREACH "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == "" {
		s.why = fmt.Sprintf(format, args...)
	}
}

// Why returns the first breach; empty for none.
func (s *Story) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// Said returns the latest records.
func (s *Story) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said[max(0, len(s.said)-80):], "\n")
}
