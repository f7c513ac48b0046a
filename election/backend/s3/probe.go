package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// ErrConditions is the error of Probe if the store accepts conditional writes and ignores their
// conditions, or does not accept them.
var ErrConditions = errors.New("the store does not honour If-None-Match and If-Match on writes, so everybody " +
	"would lead; use a store or a version that does")

// probeTries is how often Probe starts again because others probe at the same time.
const probeTries = 20

// Probe checks that the store refuses a write whose condition does not hold: it writes an object
// of its own in the prefix, conditions.probe, and then tries to overwrite an earlier version and
// to create the object again. It costs four requests. A backend calls it before its first write.
func Probe(ctx context.Context, client *s3.Client, options Options) error {
	s, err := newStore(client, options)
	if err != nil {
		return err
	}
	return s.probe(ctx)
}

// probeKey returns the key of Probe's object. It is not the key of an election, because it
// has another ending.
func (o Options) probeKey() string { return o.Prefix + "/conditions.probe" }

func (s *store) probe(ctx context.Context) error {
	key := s.options.probeKey()
	stale, err := s.outdated(ctx, key)
	if err != nil {
		return fmt.Errorf("probe the store: %w", err)
	}
	for _, condition := range []struct{ name, version string }{{"If-Match", stale}, {"If-None-Match", ""}} {
		_, err := s.put(ctx, key, probeContent(), condition.version)
		if err == nil {
			return election.Permanent(fmt.Errorf("probe the store: bucket %q accepted a write of %s although its %s "+
				"forbade it: %w", s.options.Bucket, key, condition.name, ErrConditions))
		}
		if !errors.Is(err, record.ErrConflict) {
			return fmt.Errorf("probe the store: %w", err)
		}
	}
	return nil
}

// outdated returns an ETag that the object has had and no longer has.
func (s *store) outdated(ctx context.Context, key string) (string, error) {
	for range probeTries {
		version, err := s.put(ctx, key, probeContent(), "")
		if errors.Is(err, record.ErrConflict) {
			version, err = s.etag(ctx, key)
		}
		if err == nil && version != "" {
			_, err = s.put(ctx, key, probeContent(), version)
		}
		if err == nil && version != "" {
			return version, nil
		}
		if err != nil && !errors.Is(err, record.ErrConflict) {
			return "", err
		}
	}
	return "", fmt.Errorf("put %s in bucket %q: others write it all the time", key, s.options.Bucket)
}

// etag returns the ETag of an object, empty if there is none.
func (s *store) etag(ctx context.Context, key string) (string, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.options.Bucket, Key: &key}, once)
	if isCode(err, "NotFound", "NoSuchKey") {
		return "", nil
	}
	if err != nil {
		return "", s.explain("look at", key, err)
	}
	return aws.ToString(out.ETag), nil
}

func probeContent() []byte {
	return []byte("written by conclave to see whether this store honours conditions; " + rand.Text() + "\n")
}
