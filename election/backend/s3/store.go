package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/objects"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
)

// bytesMax is the size of the largest object that is read. A record has a few KB.
const bytesMax = 1 << 20

// store is a record.Store.
type store struct {
	client  *s3.Client
	options Options
	pace    *polling.Pace

	probing objects.Probe
}

// content is the content of an object.
type content struct {
	Nonce  string         `json:"nonce"` // random, so that no ETag comes back (s3-O3)
	Record *record.Record `json:"record"`
}

func newStore(client *s3.Client, options Options) (*store, error) {
	options, err := options.validate()
	if err != nil {
		return nil, err
	}
	return &store{client: client, options: options, pace: polling.New(options.Poll, pollLeast)}, nil
}

// Read gets the object.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	key := objects.Key(s.options.Prefix, name)
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.options.Bucket, Key: &key}, once)
	if isCode(err, "NoSuchKey", "NotFound") {
		return record.Record{}, "", nil
	}
	if err != nil {
		return record.Record{}, "", s.explain("get", key, err)
	}
	data, err := io.ReadAll(io.LimitReader(out.Body, bytesMax+1))
	if err := errors.Join(err, out.Body.Close()); err != nil {
		return record.Record{}, "", s.explain("get", key, err)
	}
	r, err := decode(data)
	if err != nil {
		return record.Record{}, "", s.explain("get", key, err)
	}
	s.pace.Note(name, time.Duration(r.LeaseMs)*time.Millisecond)
	return r, aws.ToString(out.ETag), nil
}

// Write writes the object if it still has the ETag (s3-O1).
func (s *store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if err := s.probing.Once(ctx, s.probe); err != nil {
		return "", err
	}
	data, err := json.Marshal(content{rand.Text(), &r})
	if err != nil {
		return "", err
	}
	return s.put(ctx, objects.Key(s.options.Prefix, name), data, version)
}

// put writes an object if it still has the ETag (empty for no object), and returns the new
// one.
func (s *store) put(ctx context.Context, key string, data []byte, version string) (string, error) {
	input := &s3.PutObjectInput{Bucket: &s.options.Bucket, Key: &key, Body: bytes.NewReader(data),
		ContentType: aws.String("application/json")}
	if version == "" {
		input.IfNoneMatch = aws.String("*")
	} else {
		input.IfMatch = &version
	}
	out, err := s.client.PutObject(ctx, input, once)
	if err != nil {
		return "", s.explain("put", key, err)
	}
	after := aws.ToString(out.ETag)
	if after == "" || after == version {
		return "", s.explain("put", key, election.Permanent(
			fmt.Errorf("the store gave the ETag %q after %q; it cannot be elected on", after, version)))
	}
	return after, nil
}

// Wait returns when it is time to read again.
func (s *store) Wait(ctx context.Context, name, _ string, limit time.Duration) error {
	return s.pace.Wait(ctx, name, limit)
}

// Names lists the objects below the prefix, page by page.
func (s *store) Names(ctx context.Context) ([]string, error) {
	prefix := s.options.Prefix + "/"
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{
		Bucket: &s.options.Bucket, Prefix: &prefix})
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.explain("list", prefix, err)
		}
		for _, object := range page.Contents {
			if name, ours := objects.Name(s.options.Prefix, aws.ToString(object.Key)); ours {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// once turns off the retries of one call (s3-O4). The caller tries again while it makes
// sense.
func once(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// errNotOurs is returned for an object that another program has written.
var errNotOurs = errors.New("the object is not of an election; use a prefix of its own")

func decode(data []byte) (record.Record, error) {
	var c content
	if len(data) > bytesMax {
		return record.Record{}, fmt.Errorf("%w (it has more than %d bytes)", errNotOurs, bytesMax)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return record.Record{}, fmt.Errorf("%w: %w", errNotOurs, err)
	}
	if c.Record == nil || c.Nonce == "" {
		return record.Record{}, errNotOurs
	}
	return *c.Record, nil
}
