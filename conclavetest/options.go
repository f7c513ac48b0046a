package conclavetest

import (
	"testing"
	"time"
)

// Option is something about an ensemble that is not as usual.
type Option func(*options)

type options struct {
	servers, observers int
	tick               time.Duration
	sessionMin         time.Duration
	log                testing.TB
}

func defaults() options {
	return options{servers: 3, tick: 200 * time.Millisecond, sessionMin: 200 * time.Millisecond}
}

// silenceTicks is how many ticks servers wait for each other before they take
// the other one for gone.
const silenceTicks = 5

// sessionMax is the longest timeout that sessions may have.
const sessionMax = time.Hour

// Servers says how many servers vote; 3 is usual, 1 is a standalone server.
func Servers(n int) Option { return func(o *options) { o.servers = n } }

// Observers says how many servers follow without a vote; 0 is usual. They are
// numbered after the others.
func Observers(n int) Option { return func(o *options) { o.observers = n } }

// TickTime is the servers' tick; 200 ms is usual. Servers that do not reach each
// other for five ticks take each other for gone, and a session ends up to half a
// tick after its timeout.
func TickTime(d time.Duration) Option { return func(o *options) { o.tick = d } }

// SessionMin is the shortest timeout that sessions may have; 200 ms is usual.
func SessionMin(d time.Duration) Option { return func(o *options) { o.sessionMin = d } }

// Log prints what the servers log as it happens, not only when the test has
// failed.
func Log(t testing.TB) Option { return func(o *options) { o.log = t } }
