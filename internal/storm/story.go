package storm

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Story is what happens in a storm, and what is wrong. Its methods may be called at any time.
type Story struct {
	Began time.Time // in the time of the bubble

	mu   sync.Mutex
	said []string
	why  string
}

// Say notes what happens.
func (s *Story) Say(format string, args ...any) {
	line := fmt.Sprintf("%9.3f ", time.Since(s.Began).Seconds()) + fmt.Sprintf(format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, line)
	if *prints {
		fmt.Println(line)
	}
}

// Breach notes what is wrong.
func (s *Story) Breach(format string, args ...any) {
	s.Say("BREACH "+format, args...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == "" {
		s.why = fmt.Sprintf(format, args...)
	}
}

// Why is what was wrong first, empty for nothing.
func (s *Story) Why() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// Said is what has happened last.
func (s *Story) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.said[max(0, len(s.said)-80):], "\n")
}
