package conclavetest

import (
	"testing"
	"time"
)

// Option changes a default of an ensemble.
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

// silenceTicks is the number of ticks after which silent servers consider each other gone.
const silenceTicks = 5

// sessionMax is the longest timeout that a session may have.
const sessionMax = time.Hour

// Servers sets the number of servers that vote. The default is 3; 1 is a standalone server.
func Servers(n int) Option { return func(o *options) { o.servers = n } }

// Observers sets the number of servers that follow without a vote. The default is 0. They are
// numbered after the others.
func Observers(n int) Option { return func(o *options) { o.observers = n } }

// TickTime sets the servers' tick. The default is 200 ms. Servers that do not reach each other
// for five ticks consider each other gone, and a session ends up to half a tick after its
// timeout.
func TickTime(d time.Duration) Option { return func(o *options) { o.tick = d } }

// SessionMin sets the shortest timeout that a session may have. The default is 200 ms.
func SessionMin(d time.Duration) Option { return func(o *options) { o.sessionMin = d } }

// Log prints the servers' logs as they are written, not only if the test has failed.
func Log(t testing.TB) Option { return func(o *options) { o.log = t } }
