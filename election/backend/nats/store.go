package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/backend/internal/watchhub"
	"github.com/conclave-project/conclave/election/record"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// store is a record.Store on one bucket.
type store struct {
	js      jetstream.JetStream
	owned   bool // the connection serves nothing else
	probing atomic.Bool
	options Options
	watch   *incarnation.Watch
	hub     *watchhub.Hub[record.News]

	mu      sync.Mutex
	holders map[string]holder // by election, as last read or written
	adopted string            // the last incarnation that was seen to be adopted
}

// holder is the candidate that led according to a version of a record.
type holder struct{ version, nonce string }

// holdersMax is for how many elections the last holder is remembered.
const holdersMax = 10_000

var (
	_ record.Watcher    = (*store)(nil)
	_ record.Teller     = (*store)(nil)
	_ record.Incarnated = (*store)(nil)
)

// Traits returns what the store promises and what it depends on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "nats", LeaseMin: 200 * time.Millisecond, Guarantees: election.Guarantees{
		Failover: "3 replicas: goes on with the majority, but after 6 to 14 s if the server that leads the bucket's " +
			"stream has died or frozen: a lease below 30 s may be lost then; loses grants if most lose power at " +
			"once and sync_interval is not always. 1 replica: nobody is elected for LeaseMax (15 s) after its server has " +
			"restarted; leaders go on if their record is there. All candidates that share the bucket, in any " +
			"election, need the same LeaseMax",
		Renewal: "1 message, stored by a majority of the replicas",
		Waiting: "1 consumer of the bucket, which delivers the records; a read when there is something to do. " +
			"The successor writes three times in a lease",
		Notice: "watch; poll every 1 s while it is broken",
	}}
}

// Watches says that Wait learns of changes.
func (s *store) Watches() bool { return true }

// Read returns the last message of the election's key.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var r record.Record
	m, err := s.last(ctx, keyOf(name))
	if err != nil {
		return r, "", s.explain("read", err)
	}
	if m.revision == 0 || m.deleted {
		s.note(name, "", "")
		return r, "", nil
	}
	if err := json.Unmarshal(m.data, &r); err != nil {
		return r, "", election.Permanent(fmt.Errorf("key %q of bucket %s: %w; delete it with nats kv del", keyOf(name), s.options.Bucket, err))
	}
	version := strconv.FormatUint(m.revision, 10)
	s.note(name, version, r.Nonce)
	return r, version, nil
}

// note remembers the leader according to a version.
func (s *store) note(name, version, nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.holders) >= holdersMax {
		clear(s.holders)
	}
	s.holders[name] = holder{version, nonce}
}

// takes reports whether the write makes another candidate the holder. If the holder of that
// version is not known, it returns true.
func (s *store) takes(name string, r record.Record, version string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.Nonce != "" && s.holders[name] != holder{version, r.Nonce}
}

// Write writes the record with one message.
func (s *store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	return s.watch.Write(ctx, s, name, r, version)
}

// Put is one compare and set. It checks the incarnation before and after it, because
// JetStream cannot do that in the same step: in between, a candidate may be delayed for as
// long as a server needs to restart, or to lose the bucket. If the incarnation has changed
// after a write that takes an election, Put returns an error, as if the answer were lost,
// and the candidate undoes the write (record-R7).
func (s *store) Put(ctx context.Context, name string, r record.Record, version string) (incarnation.Outcome, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var outcome incarnation.Outcome
	var revision uint64
	text, err := json.Marshal(r)
	if err == nil && version != "" {
		revision, err = strconv.ParseUint(version, 10, 64)
	}
	if err != nil {
		return outcome, err
	}
	takes := s.takes(name, r, version)
	if takes || version == "" {
		if outcome, err = s.mayTake(ctx); err != nil {
			return outcome, s.explain("write", err)
		}
		refused := outcome.Refused || outcome.Incarnation != r.Incarnation
		if outcome.Refused = refused && r.Nonce != ""; outcome.Refused {
			return outcome, nil
		}
	}
	written, err := s.publish(ctx, keyOf(name), text, revision)
	if version == "" && isConflict(err) {
		written, err = s.publishOverDeleted(ctx, name, text, err)
	}
	if isConflict(err) {
		return outcome, nil
	}
	if err != nil {
		return outcome, s.explain("write", err)
	}
	if takes {
		now, err := s.info(ctx)
		if err == nil && now != outcome.Incarnation {
			err = errBegunAgain
		}
		if err != nil {
			return incarnation.Outcome{}, s.explain("write", err)
		}
	}
	outcome.Version = strconv.FormatUint(written, 10)
	s.note(name, outcome.Version, r.Nonce)
	return outcome, nil
}

var errBegunAgain = errors.New("the bucket has begun again meanwhile, and may have forgotten grants")

// publishOverDeleted writes if the last message of the key says that it was deleted;
// otherwise it returns the conflict.
func (s *store) publishOverDeleted(ctx context.Context, name string, text []byte, conflict error) (uint64, error) {
	m, err := s.last(ctx, keyOf(name))
	if err != nil {
		return 0, err
	}
	if !m.deleted {
		return 0, conflict
	}
	return s.publish(ctx, keyOf(name), text, m.revision)
}

// mayTake reports whether the incarnation is adopted.
func (s *store) mayTake(ctx context.Context) (incarnation.Outcome, error) {
	now, err := s.info(ctx)
	outcome := incarnation.Outcome{Incarnation: now}
	if err != nil {
		return outcome, err
	}
	s.mu.Lock()
	known := s.adopted == now
	s.mu.Unlock()
	if known {
		return outcome, nil
	}
	m, err := s.last(ctx, adoptedKey)
	if err != nil {
		return outcome, err
	}
	outcome.Refused = string(m.data) != now || m.deleted
	if !outcome.Refused {
		s.mu.Lock()
		s.adopted = now
		s.mu.Unlock()
	}
	return outcome, nil
}

// Incarnation returns that of the bucket as it was seen last.
func (s *store) Incarnation() string { return s.watch.Incarnation() }

// Adopt writes the incarnation to its key.
func (s *store) Adopt(ctx context.Context, refusal incarnation.Outcome) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	now, err := s.info(ctx)
	if err != nil || now != refusal.Incarnation {
		return s.explain("write", err)
	}
	m, err := s.last(ctx, adoptedKey)
	if err == nil {
		_, err = s.publish(ctx, adoptedKey, []byte(now), m.revision)
	}
	if isConflict(err) {
		return nil // another candidate was faster, or the next attempt finds out
	}
	return s.explain("write", err)
}

// Wait waits for news of the key.
func (s *store) Wait(ctx context.Context, name, version string, limit time.Duration) error {
	_, err := s.WaitTold(ctx, name, version, limit)
	return err
}

// WaitTold waits for news and returns them.
func (s *store) WaitTold(ctx context.Context, name, version string, limit time.Duration) (record.News, error) {
	return s.hub.Wait(ctx, name, version, limit, func(ctx context.Context) (string, error) {
		_, now, err := s.Read(ctx, name)
		return now, err
	})
}

// Names returns the names of all keys for which the leader of the stream has a message
// (nats-J3) other than a deletion. The client library reads the keys from a replica, which
// may lack the latest ones.
func (s *store) Names(ctx context.Context) ([]string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	all, err := s.subjects(ctx)
	if err != nil || len(all) == 0 {
		return nil, s.explain("read", err)
	}
	bucket, err := s.js.KeyValue(ctx, s.options.Bucket)
	if err != nil {
		return nil, s.explain("read", err)
	}
	keys, err := bucket.Keys(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, s.explain("read", err)
	}
	there := make(map[string]bool, len(keys))
	for _, key := range keys {
		there[key] = true
	}
	var names []string
	for _, key := range all {
		name, ours := nameOf(key)
		if !ours {
			continue
		}
		if !there[key] {
			m, err := s.last(ctx, key)
			if err != nil {
				return nil, s.explain("read", err)
			}
			if m.revision == 0 || m.deleted {
				continue
			}
		}
		names = append(names, name)
	}
	return names, nil
}

// isRefusal reports whether a server does not know the credentials, or no longer does.
func isRefusal(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) ||
		errors.Is(err, nats.ErrAuthRevoked) || errors.Is(err, nats.ErrAccountAuthExpired)
}

// explain says what was being done and what to do about it, and marks errors that no retry
// can overcome.
func (s *store) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s bucket %s: %w", what, s.options.Bucket, err)
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		if last := s.js.Conn().LastError(); last != nil {
			err = fmt.Errorf("%w (%w)", err, last)
		}
		return election.Permanent(fmt.Errorf("%w; a connection that is closed stays so: repair its credentials (%w)", err, election.ErrClosed))
	case errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, context.DeadlineExceeded) && !s.js.Conn().IsConnected():
		// The connection is tried for ever; its last error is that of the last attempt.
		last := s.js.Conn().LastError()
		if last == nil {
			return err
		}
		err = fmt.Errorf("%w (there is no connection: %w)", err, last)
		if isRefusal(last) {
			return election.Permanent(fmt.Errorf("%w; repair its credentials", err))
		}
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: %w", errNoJetStream, err)
	case errors.Is(err, context.DeadlineExceeded):
		// The last error may be an old one, or that of another user of the connection.
		if last := s.js.Conn().LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			return fmt.Errorf("%w; this connection was once told %w: candidates must be allowed to publish to $JS.API.> and %s, "+
				"and to subscribe to _INBOX.>", err, last, s.subject(">"))
		}
	case hasCode(err, jetstream.JSErrCodeJetStreamNotEnabledForAccount, jetstream.JSErrCodeJetStreamNotEnabled):
		return election.Permanent(fmt.Errorf("%w; enable JetStream for this account", err))
	}
	return err
}
