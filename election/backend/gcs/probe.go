package gcs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// ErrConditions is the error of Probe if the store accepts conditional writes and ignores their
// conditions.
var ErrConditions = errors.New("the store does not honour ifGenerationMatch on writes, so everybody would lead; " +
	"use Google Cloud Storage, or an emulator that does")

// Probe checks that the store refuses a write whose condition does not hold: it tries to replace
// an object that does not exist, with a random name in the prefix, and deletes it if the store
// has created it. It costs one request. A backend calls it before its first write. The error is
// ErrConditions, or that of the request.
func Probe(ctx context.Context, client *http.Client, options Options) error {
	s, err := newStore(client, options)
	if err != nil {
		return err
	}
	return s.probe(ctx)
}

// probeKey returns a key without an object, for Probe. It is not the key of an election,
// because it has another ending.
func (o Options) probeKey() string { return o.Prefix + "/" + rand.Text() + ".probe" }

// generationOfNone is one that no object has: the service counts microseconds since 1970.
const generationOfNone = "1"

func (s *store) probe(ctx context.Context) error {
	key := s.options.probeKey()
	_, err := s.put(ctx, key, []byte("{}"), generationOfNone)
	switch {
	case errors.Is(err, record.ErrConflict):
		return nil
	case err != nil:
		return fmt.Errorf("probe the store: %w", err)
	}
	_ = s.api.remove(ctx, key) // a leftover object disturbs nobody
	return election.Permanent(fmt.Errorf("probe the store: bucket %q accepted a write of %s although its "+
		"ifGenerationMatch forbade it: %w", s.options.Bucket, key, ErrConditions))
}
