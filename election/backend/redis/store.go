package redis

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/backend/internal/watchhub"
	"github.com/conclave-project/conclave/election/record"
	"github.com/redis/go-redis/v9"
)

// store is a record.Store on one hash.
type store struct {
	client  redis.UniversalClient
	options Options
	watch   *incarnation.Watch
	hub     *watchhub.Hub[record.News]
}

var (
	readScript  = redis.NewScript(readLua)
	putScript   = redis.NewScript(putLua)
	adoptScript = redis.NewScript(adoptLua)
)

var (
	_ record.Watcher    = (*store)(nil)
	_ record.Teller     = (*store)(nil)
	_ record.Incarnated = (*store)(nil)
)

// Traits returns what the store promises and what it depends on.
func (s *store) Traits() election.Traits {
	return election.Traits{Name: "redis", LeaseMin: 200 * time.Millisecond, Guarantees: election.Guarantees{
		Failover: "nobody is elected for LeaseMax (15 s) after a restart or failover, whatever was lost; " +
			"leaders go on if their record is there. An old primary that is partitioned and still takes writes " +
			"elects a second leader: set Replicas, or min-replicas-to-write. A primary that gets a replica " +
			"again after repl-backlog-ttl (an hour) without one counts as having failed over. All candidates " +
			"that share the hash, in any election, need the same LeaseMax",
		Renewal: "1 script, and 1 append to the log if it has one",
		Waiting: "1 connection that subscribes and delivers the record; a script when there is something to do. " +
			"The successor writes three times in a lease",
		Notice: "watch (PUBLISH); poll every 1 s if it cannot be received",
	}}
}

// Watches says that Wait learns of changes.
func (s *store) Watches() bool { return true }

// within bounds the time of a command, so that a link that loses everything does not block
// a candidate for long.
func (s *store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.options.Timeout)
}

// Read returns the field of the election.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var r record.Record
	answer, err := readScript.Run(ctx, s.client, []string{s.options.Key}, name).Slice()
	if err != nil {
		return r, "", s.explain("read", err)
	}
	now, text, err := readAnswer(answer)
	if err != nil {
		return r, "", s.explain("read", err)
	}
	s.watch.See(now)
	if text == "" {
		return r, "", nil
	}
	version, rest, _ := strings.Cut(text, " ")
	_, body, found := strings.Cut(rest, " ")
	if !found {
		err = errors.New("no version and nonce before the record")
	} else {
		err = json.Unmarshal([]byte(body), &r)
	}
	if err != nil {
		return r, "", election.Permanent(fmt.Errorf("field %q of %s: %w; delete it with HDEL", name, s.options.Key, err))
	}
	return r, version, nil
}

var errAnswer = errors.New("the script has answered something else than it should")

func readAnswer(answer []any) (incarnation, text string, err error) {
	if len(answer) != 2 {
		return "", "", errAnswer
	}
	incarnation, isIncarnation := answer[0].(string)
	text, isText := answer[1].(string)
	if !isIncarnation || !isText {
		return "", "", errAnswer
	}
	return incarnation, text, nil
}

// Write writes the record with one script.
func (s *store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	return s.watch.Write(ctx, s, name, r, version)
}

// Put is one compare and set.
func (s *store) Put(ctx context.Context, name string, r record.Record, version string) (incarnation.Outcome, error) {
	var outcome incarnation.Outcome
	text, err := json.Marshal(r)
	if err != nil {
		return outcome, err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	next := newVersion()
	answer, err := s.run(ctx, name, next, r.Nonce, string(text), version, s.options.Key, r.Incarnation)
	if err != nil {
		return outcome, s.explain("write", err)
	}
	if len(answer) < 2 {
		return outcome, s.explain("write", errAnswer)
	}
	was, isNumber := answer[0].(int64)
	now, isText := answer[1].(string)
	if !isNumber || !isText {
		return outcome, s.explain("write", errAnswer)
	}
	outcome.Incarnation, outcome.Refused = now, was == wasRefused
	if outcome.Refused && len(answer) > 2 {
		outcome.Blank, _ = answer[2].(string)
	}
	if was == wasWritten {
		outcome.Version = next
	}
	return outcome, nil
}

// run runs putLua. If Options.Replicas is set, it then waits for the replicas on the same
// connection, because WAIT refers to the last write of its connection.
func (s *store) run(ctx context.Context, args ...any) ([]any, error) {
	keys := []string{s.options.Key}
	if s.options.Replicas == 0 {
		return putScript.Run(ctx, s.client, keys, args...).Slice()
	}
	var script, confirmed *redis.Cmd
	if _, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		script = putScript.Eval(ctx, p, keys, args...)
		confirmed = p.Do(ctx, "wait", s.options.Replicas, (s.options.Timeout / 2).Milliseconds())
		return nil
	}); err != nil {
		return nil, err
	}
	got, err := confirmed.Int()
	if err == nil && got < s.options.Replicas {
		err = fmt.Errorf("%d of %d replicas have confirmed it", got, s.options.Replicas)
	}
	if err != nil {
		return nil, err
	}
	return script.Slice()
}

// Incarnation returns that of the server as it was seen last.
func (s *store) Incarnation() string { return s.watch.Incarnation() }

// Adopt marks the incarnation as adopted.
func (s *store) Adopt(ctx context.Context, refusal incarnation.Outcome) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	run := adoptScript.Run(ctx, s.client, []string{s.options.Key}, refusal.Incarnation, refusal.Blank)
	return s.explain("write", run.Err())
}

// Wait waits for news of the field.
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

// Names returns the names of all fields.
func (s *store) Names(ctx context.Context) ([]string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	names, err := s.client.HKeys(ctx, s.options.Key).Result()
	if err != nil {
		return nil, s.explain("read", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" }), nil
}

// newVersion returns 32 random hexadecimal digits.
func newVersion() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

var errReplica = errors.New("this server is a replica, which shows the past; name the primary, " +
	"or the Sentinels that know it (redis://sentinel:26379?master_name=NAME)")

// explain says what was being done and what to do about it, and marks errors that no retry
// can overcome.
func (s *store) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "ERR "), " ")
	if strings.Contains(err.Error(), "can't run this command") { // the text for a command in a script
		kind = "NOPERM"
	}
	err = fmt.Errorf("%s hash %s: %w", what, s.options.Key, err)
	if _, one := s.client.(*redis.Client); one && errors.Is(err, redis.ErrClosed) { // a cluster closes single ones of its clients
		return election.Permanent(fmt.Errorf("%w; a client that is closed stays so (%w)", err, election.ErrClosed))
	}
	switch kind {
	case "NOAUTH", "WRONGPASS":
		return election.Permanent(fmt.Errorf("%w; credentials come from the URL or REDISCLI_AUTH", err))
	case "NOPERM":
		return election.Permanent(fmt.Errorf("%w; candidates need ACL rules like ~%s &%s "+
			"+@hash +eval +evalsha +info +publish +subscribe +ping +select +wait +client|setname", err, s.options.Key, s.options.Key))
	case "WRONGTYPE":
		return election.Permanent(fmt.Errorf("%w; the key holds something else, choose another with key=NAME", err))
	case "NOIDENTITY":
		return election.Permanent(fmt.Errorf("%w; this server cannot serve: nobody could tell what it has forgotten", err))
	case "READONLY":
		return fmt.Errorf("%w: %w", errReplica, err)
	case "OOM", "MISCONF":
		return fmt.Errorf("%w; the server refuses writes: give it memory and disk", err)
	}
	return err
}
