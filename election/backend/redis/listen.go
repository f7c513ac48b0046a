package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election/record"
	"github.com/redis/go-redis/v9"
)

const (
	// echoWithin is how soon this client must receive what it has published itself.
	echoWithin = 2 * time.Second
	// proveEvery is how often a silent connection is checked.
	proveEvery = 10 * time.Second
)

// listen reports changes until the connection breaks. The connection counts as live only
// after it has received what was published over the connections that writes use.
func (s *store) listen(ctx context.Context, live func(), tell func(name, version string, news func() record.News)) error {
	subscription := s.client.Subscribe(ctx, s.options.Key)
	defer func() { _ = subscription.Close() }()
	// A receive ignores its context.
	defer context.AfterFunc(ctx, func() { _ = subscription.Close() })()
	if err := s.awaitEcho(ctx, subscription); err != nil {
		return err
	}
	live()
	for {
		payload, err := receive(ctx, subscription)
		if err != nil {
			return err
		}
		if told, name, ok := strings.Cut(payload, " "); ok {
			version, text, _ := strings.Cut(told, ":")
			tell(name, version, func() record.News { return record.NewsOf(version, []byte(text)) })
		}
	}
}

// awaitEcho returns when this client's own message has come back.
func (s *store) awaitEcho(ctx context.Context, subscription *redis.PubSub) error {
	echo, deadline := newVersion(), time.Now().Add(echoWithin)
	for {
		news, err := subscription.ReceiveTimeout(ctx, max(time.Millisecond, time.Until(deadline)))
		if err != nil {
			return fmt.Errorf("SUBSCRIBE does not receive PUBLISH: %w", err)
		}
		switch news := news.(type) {
		case *redis.Subscription:
			if err := s.client.Publish(ctx, s.options.Key, echo).Err(); err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		case *redis.Message:
			if news.Payload == echo {
				return nil
			}
		}
	}
}

// receive returns the next notification; meanwhile it checks that the connection is alive.
func receive(ctx context.Context, subscription *redis.PubSub) (string, error) {
	for proving := false; ; {
		news, err := subscription.ReceiveTimeout(ctx, proveEvery)
		var slow net.Error
		switch {
		case err == nil:
			proving = false
			if message, ok := news.(*redis.Message); ok {
				return message.Payload, nil
			}
		case proving || !errors.As(err, &slow) || !slow.Timeout():
			return "", err
		default:
			proving = true
			if err := subscription.Ping(ctx); err != nil {
				return "", err
			}
		}
	}
}
