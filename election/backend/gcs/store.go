package gcs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/objects"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
)

// store is a record.Store.
type store struct {
	api     *api
	options Options
	pace    *polling.Pace

	probing objects.Probe
}

// content is the content of an object.
type content struct {
	Record *record.Record `json:"record"`
}

func newStore(client *http.Client, options Options) (*store, error) {
	options, err := options.validate()
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("gcs: the client is nil; pass one that adds credentials")
	}
	return &store{api: newAPI(client, options), options: options, pace: polling.New(options.Poll, pollLeast)}, nil
}

// Read gets the object.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	key := objects.Key(s.options.Prefix, name)
	data, generation, err := s.api.get(ctx, key)
	if isMissing(err) {
		return record.Record{}, "", nil
	}
	if err != nil {
		return record.Record{}, "", s.explain("get", key, err)
	}
	r, err := decode(data)
	if err != nil {
		return record.Record{}, "", s.explain("get", key, err)
	}
	s.pace.Note(name, time.Duration(r.LeaseMs)*time.Millisecond)
	return r, generation, nil
}

// Write writes the object if it still has the generation (gcs-G1).
func (s *store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	if err := s.probing.Once(ctx, s.probe); err != nil {
		return "", err
	}
	data, err := json.Marshal(content{&r})
	if err != nil {
		return "", err
	}
	return s.put(ctx, objects.Key(s.options.Prefix, name), data, version)
}

// Pauses after a write that exceeded the limit per second, each plus or minus a tenth.
const (
	pauseFirst = 1200 * time.Millisecond
	pauseMax   = 4 * time.Second
	// answerTime is the time that should be left for the answer to a write.
	answerTime = 300 * time.Millisecond
)

// put writes an object if it still has the generation (empty for no object), and returns
// the new generation. It waits while there are too many writes (gcs-G4).
func (s *store) put(ctx context.Context, key string, data []byte, version string) (string, error) {
	for pause := pauseFirst; ; pause = min(2*pause, pauseMax) {
		after, err := s.api.insert(ctx, key, data, cmp.Or(version, "0"))
		switch {
		case err == nil && after == version:
			return "", s.explain("put", key, fmt.Errorf("%w: %s again", errNoGeneration, after))
		case !isLimited(err):
			if err != nil {
				err = s.explain("put", key, err)
			}
			return after, err
		}
		wait := polling.Jitter(pause)
		deadline, limited := ctx.Deadline()
		if limited && time.Until(deadline) < wait+answerTime || polling.Sleep(ctx, wait) != nil {
			return "", limitedError{s.explain("put", key, err), wait}
		}
	}
}

// Wait returns when it is time to read again.
func (s *store) Wait(ctx context.Context, name, _ string, limit time.Duration) error {
	return s.pace.Wait(ctx, name, limit)
}

// Names lists the objects below the prefix, page by page.
func (s *store) Names(ctx context.Context) ([]string, error) {
	var names []string
	for prefix, page := s.options.Prefix+"/", ""; ; {
		keys, next, err := s.api.list(ctx, prefix, page)
		if err != nil {
			return nil, s.explain("list", prefix, err)
		}
		for _, key := range keys {
			if name, ours := objects.Name(s.options.Prefix, key); ours {
				names = append(names, name)
			}
		}
		if page = next; page == "" {
			return names, nil
		}
	}
}

func decode(data []byte) (record.Record, error) {
	var c content
	if err := json.Unmarshal(data, &c); err != nil {
		return record.Record{}, fmt.Errorf("%w: %w", errNotOurs, err)
	}
	if c.Record == nil {
		return record.Record{}, errNotOurs
	}
	return *c.Record, nil
}
