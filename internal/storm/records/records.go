// Package records is for tests on the virtual time of a bubble of testing/synctest. It provides
// records in memory that each machine reaches over a link of its own.
//
// A Store is a record.Store made of records and of a link that a test breaks. What always holds:
//
//	records-R1  A request takes effect once or not at all, even if nobody waits for it
//	            any more.
//
// The package breaks nothing by itself.
package records

import (
	"context"
	"time"

	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/bubble"
)

// Store keeps records in memory, behind a link. Several goroutines may call its methods.
type Store struct {
	*record.Memory
	Link *bubble.Link
	// Answered, if not nil, is called for each answer, and Written for each record that is written.
	Answered func()
	Written  func(record.Record)
	// Blind puts in a bug: writes do not compare the version.
	Blind bool
}

type answer struct {
	record  record.Record
	version string
	err     error
}

func (s Store) pass(ctx context.Context, call func() answer) answer {
	got := make(chan answer, 1)
	if err := s.Link.Pass(ctx, func() { got <- call() }); err != nil {
		return answer{err: err}
	}
	if s.Answered != nil {
		s.Answered()
	}
	return <-got
}

// Read reads a record over the link.
func (s Store) Read(ctx context.Context, name string) (record.Record, string, error) {
	a := s.pass(ctx, func() (a answer) {
		a.record, a.version, a.err = s.Memory.Read(ctx, name)
		return a
	})
	return a.record, a.version, a.err
}

// Write writes a record over the link.
func (s Store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	a := s.pass(ctx, func() (a answer) {
		if s.Blind {
			_, version, _ = s.Memory.Read(ctx, name)
		}
		if a.version, a.err = s.Memory.Write(ctx, name, r, version); a.err == nil && s.Written != nil {
			s.Written(r)
		}
		return a
	})
	return a.version, a.err
}

// WaitTold returns what the watch reports, or only that something happened.
func (s Store) WaitTold(ctx context.Context, name, version string, limit time.Duration) (news record.News, err error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = s.Link.Watch(within, func(ctx context.Context) (err error) {
		news, err = s.Memory.WaitTold(ctx, name, version, limit)
		return err
	})
	if within.Err() != nil && ctx.Err() == nil {
		return record.News{}, nil
	}
	return news, err
}

// Wait is WaitTold without what it reports.
func (s Store) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	_, err := s.WaitTold(ctx, name, version, limit)
	return err
}
