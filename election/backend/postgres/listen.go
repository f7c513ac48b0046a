package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election/record"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// echoWithin is how soon this client must receive its own NOTIFY for LISTEN to count as
	// working.
	echoWithin = 2 * time.Second
	// proveEvery is how often a silent connection is checked.
	proveEvery = 10 * time.Second
)

var errNoListen = errors.New("no connection of its own for LISTEN")

// listen reports changes until the connection breaks. The connection counts as live only
// after it has received what was sent over the connections that writes use: through
// PgBouncer in transaction mode, LISTEN is accepted but nothing ever arrives.
func (s *store) listen(ctx context.Context, live func(), tell func(name, version string, news func() record.News)) error {
	config, err := s.listenConfig(ctx)
	if errors.Is(err, errNoListen) {
		<-ctx.Done() // another attempt would fail too
	}
	if err != nil {
		return err
	}
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect for LISTEN: %w", err)
	}
	defer func() { _ = connection.Close(context.Background()) }() // at once if it is broken
	if _, err := connection.Exec(ctx, "listen "+pgx.Identifier{s.sql.channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if err := s.awaitEcho(ctx, connection); err != nil {
		return err
	}
	live()
	for {
		payload, err := s.receive(ctx, connection)
		if err != nil {
			return err
		}
		if told, name, ok := strings.Cut(payload, " "); ok {
			version, text, _ := strings.Cut(told, ":")
			tell(name, version, func() record.News { return record.NewsOf(version, []byte(text)) })
		}
	}
}

// awaitEcho returns when this client's own NOTIFY has arrived.
func (s *store) awaitEcho(ctx context.Context, connection *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, echoWithin)
	defer cancel()
	echo := newVersion()
	if err := s.execute(ctx, "select pg_notify($1::text, $2::text)", s.sql.channel, echo); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	for {
		notification, err := connection.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("LISTEN does not receive NOTIFY: %w", err)
		}
		if notification != nil && notification.Payload == echo {
			return nil
		}
	}
}

// receive returns the next notification; meanwhile it checks that the connection is alive.
func (s *store) receive(ctx context.Context, connection *pgx.Conn) (string, error) {
	for {
		silence, cancel := context.WithTimeout(ctx, proveEvery)
		notification, err := connection.WaitForNotification(silence)
		cancel()
		switch {
		case err == nil && notification == nil: // woken for another reason
			continue
		case err == nil:
			return notification.Payload, nil
		}
		if ctx.Err() != nil || silence.Err() == nil || connection.IsClosed() {
			return "", err
		}
		proof, cancel := s.within(ctx)
		err = connection.Ping(proof)
		cancel()
		if err != nil {
			return "", err
		}
	}
}

// listenConfig returns how to connect for LISTEN: as Options.Listen says, or as the driver
// does if that is pgx.
func (s *store) listenConfig(ctx context.Context) (*pgx.ConnConfig, error) {
	if s.options.Poll {
		return nil, errNoListen
	}
	if s.options.Listen != nil {
		config := s.options.Listen.Copy()
		if s.beforeListen == nil {
			return config, nil
		}
		return config, s.beforeListen(ctx, config)
	}
	pooled, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = pooled.Close() }() // returns it to the pool
	var config *pgx.ConnConfig
	err = pooled.Raw(func(driver any) error {
		if c, ok := driver.(*stdlib.Conn); ok {
			config = c.Conn().Config()
			return nil
		}
		return errNoListen
	})
	return config, err
}
