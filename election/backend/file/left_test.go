//go:build unix

package file

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
)

// A warm-up that ignores its context and ends after its candidate has left
// leaves no file.
func TestWarmUpThatOutlivesItsCandidateWritesNothing(t *testing.T) {
	b := open(t, t.TempDir())
	p, err := b.place("jobs")
	must(t, err)
	must(t, p.prepare())
	let := make(chan struct{})
	nominee := claim(time.Second)
	nominee.Warm = func(context.Context) error {
		<-let
		return nil
	}
	entry, err := p.join(nominee)
	must(t, err)
	s := &candidate{place: p, claim: nominee, entry: entry, left: make(chan struct{})}
	s.warmUp()
	s.leave()
	close(let)
	warming := func() bool {
		s.warmth.mu.Lock()
		defer s.warmth.mu.Unlock()
		return s.warmth.warming
	}
	awaittest.Until(t, "the warm-up has ended", func() bool { return !warming() })
	found, err := os.ReadDir(p.dir)
	must(t, err)
	for _, file := range found {
		if strings.HasPrefix(file.Name(), warmPrefix) {
			t.Errorf("%s is left", file.Name())
		}
	}
}
