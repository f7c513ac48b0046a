package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// Options say how a session is opened. The zero value is a new session of ten seconds over plain
// TCP.
type Options struct {
	// SessionTimeout is the timeout to ask for; the server may grant another, see Client.Timeout.
	// 0 is 10 s.
	SessionTimeout time.Duration

	// Resume attaches to a session that was left by Detach, or by a process that is gone. Nil
	// starts a new session.
	Resume *Session

	// AllowReadOnly lets the client use a server that is partitioned from its quorum, while no
	// other answers. Writes to it fail with zk.ErrNotReadOnly.
	AllowReadOnly bool

	// LeaveSoon has the client leave a server that has been silent for a quarter of the session
	// timeout, but not for less than half a second, and give up one that does not greet after an
	// eighth, but at least a second, if ConnectTimeout is not set. Otherwise the former takes two
	// thirds, as with ZooKeeper's client, which leaves little time for the next server. It costs
	// eight pings in a timeout instead of three.
	LeaveSoon bool

	// Auth holds credentials to present on every connection, as by AddAuth.
	Auth []Credential

	// Proof begins a SASL exchange that proves to a server, named by its host as listed, who this
	// client is. It runs on every connection before anything else is sent. Use DigestMD5, or a
	// function of the program's own. It may block until ctx ends, which is when the attempt to
	// connect ends; an error ends the attempt, and the next server is tried. If a server refuses
	// the proof, or asks for none, the session ends with zk.ErrAuthFailed. Nil proves nothing.
	Proof func(ctx context.Context, host string) (Proof, error)

	// TLS, if not nil, turns on TLS. If its ServerName is empty, it is set to each server's name.
	TLS *tls.Config

	// Dialer opens connections in place of net.Dialer. It gets the names as written in the list
	// of servers; the client then does not look them up.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)

	// Resolver looks names up; nil is net.DefaultResolver. Names are looked up
	// again for each round of attempts.
	Resolver *net.Resolver

	// ConnectTimeout bounds the attempt to reach one server, handshake included.
	// 0 is the session timeout divided by the number of servers and one.
	ConnectTimeout time.Duration

	// BackoffMin and BackoffMax bound the pause after all servers were tried in vain. 0 is 100 ms
	// and 5 s; a pause is never longer than a quarter of the timeout.
	BackoffMin, BackoffMax time.Duration

	// RetryFor is how long a request may be without a server before it fails with ErrNotRetried.
	// A request that finds no server waits that long; a request that was lost with its
	// connection, and certainly not applied, is sent again if there is another connection within
	// that time. It counts from when the request first has no server; once a server has taken a
	// request, the request waits for the answer. 0 is until the request's context ends;
	// RetryNever does not wait and sends nothing twice. WithRetryFor sets it for one request.
	// Requests of Submit wait for a server until their context ends, and are never sent again. A
	// recipe (client/recipes) that waits for something ends when one of its requests fails.
	RetryFor time.Duration

	// OnEvent, if not nil, is called with each change of the session's state, each attempt to
	// reach a server and each request; see Event, LogEvents and package client/metrics. One
	// goroutine calls it with requests and another with everything else; neither is one that
	// waits for a request. If it blocks, it delays only later events, of which 16384 requests and
	// 256 others are kept, and Close and Detach, which wait for it. It must not call those two.
	// After them it is not called any more, so it may miss requests that ended with the session.
	OnEvent func(Event)

	// RequestBytesMax is the longest request sent, 0 is ZooKeeper's default of 1 MiB less one
	// byte (jute.maxbuffer). A server answers a longer one by closing the connection, so the
	// client refuses it.
	RequestBytesMax int

	// ReplyBytesMax is the longest reply accepted, 0 is 16 MiB. A request with a longer reply
	// fails with ErrReplyTooLong.
	ReplyBytesMax int

	// InFlightMax is how many requests may wait for a server at once; further
	// callers wait for space. 0 is 4096.
	InFlightMax int

	// WatchQueue is how many events a persistent watch keeps for a reader that
	// is behind. 0 is 256.
	WatchQueue int

	// Seed makes the order of servers and the pauses repeatable; 0 is random.
	Seed uint64

	// Clock is the clock to use; nil is that of this machine. For tests and simulations.
	Clock clock.Clock
}

// Credential is what AddAuth presents to a server.
type Credential struct {
	Scheme string // digest, or another scheme the servers know
	Data   []byte // "user:password" for digest
}

// Session is what is needed to attach to a session again.
type Session struct {
	ID       zk.SessionID
	Password zk.Password
	LastZxid zk.Zxid // highest zxid seen: no server behind it will be used
}

const (
	sessionTimeout = 10 * time.Second
	replyBytesMax  = 16 << 20
	inFlightMax    = 4096
	watchQueue     = 256
	outBytesMax    = 4 << 20 // not yet handed to the socket; further callers wait

	rearmBytesMax   = 128 << 10 // of paths in one request that sets watches again, as in ZooKeeper's client
	rearmFixedBytes = 36        // of everything else in that request
)

// withDefaults returns o with all zero values replaced.
func (o Options) withDefaults() Options {
	set := func(field *int, value int) {
		if *field <= 0 {
			*field = value
		}
	}
	if o.SessionTimeout <= 0 {
		o.SessionTimeout = sessionTimeout
	}
	set(&o.RequestBytesMax, wire.FrameBytesMax)
	set(&o.ReplyBytesMax, replyBytesMax)
	set(&o.InFlightMax, inFlightMax)
	set(&o.WatchQueue, watchQueue)
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	return o
}

// defaultPort is used for servers that are written without a port.
const defaultPort = "2181"

// parseServers reads "host:port,host:port/chroot". Servers without a port get
// 2181; the chroot is "" if there is none.
func parseServers(list string) (servers []string, chroot string, err error) {
	if strings.Contains(list, "://") {
		return nil, "", errors.New("client: the list of servers is a URL: want host:port,host:port/chroot")
	}
	if i := strings.IndexByte(list, '/'); i >= 0 {
		list, chroot = list[:i], list[i:]
		if chroot == "/" {
			chroot = ""
		} else if strings.Contains(chroot, ",") {
			return nil, "", fmt.Errorf("client: chroot %q has a comma: the chroot is written once, after the last server", chroot)
		} else if err := zk.ValidatePath(chroot); err != nil {
			return nil, "", fmt.Errorf("client: chroot: %w", err)
		}
	}
	for server := range strings.SplitSeq(list, ",") {
		server = strings.TrimSpace(server)
		if server == "" {
			continue
		}
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			host, port = strings.Trim(server, "[]"), defaultPort
		}
		number, badPort := strconv.ParseUint(port, 10, 16)
		_, badAddress := netip.ParseAddr(host)
		if host == "" || badPort != nil || number == 0 || strings.Contains(host, ":") && badAddress != nil {
			return nil, "", fmt.Errorf("client: server %q: want host:port", server)
		}
		servers = append(servers, net.JoinHostPort(host, port))
	}
	if len(servers) == 0 {
		return nil, "", fmt.Errorf("client: no server in %q: want host:port,host:port/chroot", list)
	}
	return servers, chroot, nil
}
