package nats

import (
	"context"
	"errors"
	"strconv"

	"github.com/conclave-project/conclave/election/record"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var errBroken = errors.New("the connection is broken")

// listen reports changes until the connection breaks. The library would resume the watch by
// itself, but until then polls are better than its silence.
func (s *store) listen(ctx context.Context, live func(), tell func(name, version string, news func() record.News)) error {
	connection := s.js.Conn()
	broken := connection.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer connection.RemoveStatusListener(broken)
	opening, cancel := s.within(ctx)
	bucket, err := s.js.KeyValue(opening, s.options.Bucket)
	cancel()
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	watcher, err := bucket.WatchAll(ctx, jetstream.UpdatesOnly())
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Stop() }() // otherwise its consumer ends only with the connection
	live()
	for {
		select {
		case entry, open := <-watcher.Updates():
			if !open {
				return errBroken
			}
			if entry == nil {
				continue
			}
			if name, ours := nameOf(entry.Key()); ours {
				version := strconv.FormatUint(entry.Revision(), 10)
				tell(name, version, func() record.News { return newsOf(entry, version) })
			}
		case <-broken:
			return errBroken
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// newsOf returns the news of a change; none if the key was deleted.
func newsOf(entry jetstream.KeyValueEntry, version string) record.News {
	if entry.Operation() != jetstream.KeyValuePut {
		return record.News{}
	}
	return record.NewsOf(version, entry.Value())
}
