package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/conclave-project/conclave/internal/lobby"
	"github.com/conclave-project/conclave/internal/names"
)

// Listener returns a listener whose connections do the TLS handshake with their first
// Read, Write or Prove. With plainToo, connections that do not begin like TLS are
// plain.
func (s *Source) Listener(l net.Listener, plainToo bool) net.Listener {
	return &listener{Listener: l, source: s, plainToo: plainToo}
}

// PeerListener is Listener for the servers of an ensemble: the certificate of the other
// end must be for one of the hosts.
func (s *Source) PeerListener(l net.Listener, plainToo bool, hosts func() []string) net.Listener {
	return &listener{Listener: l, source: s, plainToo: plainToo, hosts: hosts}
}

type listener struct {
	net.Listener
	source   *Source
	plainToo bool
	hosts    func() []string // nil: any
}

// Accept implements net.Listener. It does not wait for a handshake.
func (l *listener) Accept() (net.Conn, error) {
	bare, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: bare, source: l.source, plainToo: l.plainToo, hosts: l.hosts}, nil
}

// Conn is an accepted connection. It is used like any other. Deadlines also limit
// the handshake. Close ends it at once, without a TLS close message.
type Conn struct {
	net.Conn
	source   *Source
	plainToo bool
	hosts    func() []string

	once   sync.Once
	err    error
	stream io.ReadWriter            // read and written after the handshake
	secure atomic.Pointer[tls.Conn] // nil if the connection is plain
}

// ErrPlain ends a plain connection where TLS is required.
var ErrPlain = errors.New("a connection without TLS on a port that asks for it")

// tlsHandshake is the first byte of TLS. No message of ZooKeeper's protocols begins with
// it: each would be 352 MiB long, or of an unknown kind.
const tlsHandshake = 0x16

func (c *Conn) shake() error {
	c.once.Do(func() { c.err = c.begin() })
	return c.err
}

func (c *Conn) begin() error {
	head := make([]byte, 1)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return err
	}
	began := &prefixed{Conn: c.Conn, head: head}
	switch {
	case head[0] == tlsHandshake:
		began.long, began.host = &c.source.long, lobby.HostOf(addrOf(c.RemoteAddr()), lobby.NetworkBits)
		defer began.shaken()
		secure := tls.Server(began, c.source.server(hostOf(c.RemoteAddr()), c.hosts))
		if err := secure.Handshake(); err != nil {
			return fmt.Errorf("TLS with %s: %w", c.RemoteAddr(), err)
		}
		c.secure.Store(secure)
		c.stream = secure
	case c.plainToo:
		c.stream = began
	default:
		return ErrPlain
	}
	return nil
}

// A handshake is not counted until the other end has sent more than helloBytes, enough for
// a first message and a certificate or two. Longer handshakes are counted: together they
// may use longBytesMax at a time, and the handshakes of one host a quarter of that. Without
// this limit, a client that has proved nothing could send 64 KiB, which uses twice as much
// memory.
const (
	helloBytes   = 6 << 10
	longBytesMax = 4 << 20
)

// longHandshakes counts the bytes of long handshakes, by the host at the other end.
type longHandshakes struct {
	mu  sync.Mutex
	all int64
	of  map[netip.Addr]int64
}

// add counts bytes. It returns false if there are too many, but counts them anyway.
func (l *longHandshakes) add(host netip.Addr, bytes int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[netip.Addr]int64{}
	}
	l.all += bytes
	if l.of[host] += bytes; l.of[host] == 0 {
		delete(l.of, host)
	}
	return l.all <= longBytesMax && l.of[host] <= longBytesMax/4
}

// addrOf returns the address of the other end, the zero address if there is none.
func addrOf(a net.Addr) netip.Addr {
	at, _ := netip.ParseAddrPort(a.String())
	return at.Addr()
}

// ErrCrowded ends a long handshake while there are too many others.
var ErrCrowded = errors.New("too many long handshakes at one time")

// prefixed is a connection whose first byte was already read.
type prefixed struct {
	net.Conn
	head []byte

	long *longHandshakes // nil if there is no handshake in progress
	host netip.Addr
	got  int64 // bytes received in this handshake

	flight   int  // bytes received since this side last wrote
	answered bool // this side has written
}

// A client may send no more at a time than Java's servers accept: a first message of half
// of messageBytesMax, which is eight times the size of a first message with post-quantum
// keys, and after that certificates and their accompanying messages.
const (
	messageBytesMax = 32 << 10 // Java's default, jdk.tls.maxHandshakeMessageSize
	firstBytesMax   = messageBytesMax / 2
	flightBytesMax  = messageBytesMax + 1<<10 // plus the record headers and the proof of the key
)

// ErrLong ends a handshake in which a client sends too much.
var ErrLong = errors.New("the handshake is too long")

// shaken is called at the end of the handshake.
func (p *prefixed) shaken() {
	if p.got > helloBytes {
		p.long.add(p.host, helloBytes-p.got)
	}
	p.long = nil
}

// count counts bytes received in the handshake, and returns an error if they are too many.
func (p *prefixed) count(n int) error {
	before := max(p.got, helloBytes)
	p.got += int64(n)
	p.flight += n
	most := firstBytesMax
	if p.answered {
		most = flightBytesMax
	}
	switch {
	case p.flight > most:
		return ErrLong
	case p.got > before && !p.long.add(p.host, p.got-before):
		return ErrCrowded
	}
	return nil
}

// Write implements net.Conn. A write during the handshake answers everything received so far.
func (p *prefixed) Write(b []byte) (int, error) {
	if p.long != nil { // nobody else reads or writes then
		p.flight, p.answered = 0, true
	}
	return p.Conn.Write(b)
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	n, err := p.Conn.Read(b)
	if p.long != nil {
		if why := p.count(n); why != nil {
			return 0, why
		}
	}
	return n, err
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if err := c.shake(); err != nil {
		return 0, err
	}
	return c.stream.Read(b)
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if err := c.shake(); err != nil {
		return 0, err
	}
	return c.stream.Write(b)
}

// Secure reports, after the handshake, whether the connection uses TLS.
func (c *Conn) Secure() bool { return c.secure.Load() != nil }

// End closes the connection like Close, but first sends a TLS close message, so the other
// end knows that a message without a length is complete.
func (c *Conn) End() error {
	if secure := c.secure.Load(); secure != nil {
		return secure.Close()
	}
	return c.Close()
}

// CloseWrite closes the sending side.
func (c *Conn) CloseWrite() error {
	if secure := c.secure.Load(); secure != nil {
		if err := secure.CloseWrite(); err != nil {
			return err
		}
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// IsOf returns an error if the other end has a certificate, certificates are compared with
// hosts, and this one is for none of the given hosts. So a server cannot act as another.
func (c *Conn) IsOf(hosts []string) error {
	if err := c.shake(); err != nil {
		return err
	}
	secure := c.secure.Load()
	if secure == nil || !c.source.comparesHosts() && !c.source.comparesMembers(c.hosts) {
		return nil
	}
	state := secure.ConnectionState()
	if len(state.VerifiedChains) == 0 {
		return nil
	}
	ctx, cancel := c.source.inTime()
	defer cancel()
	if c.source.isOneOf(ctx, hosts, state.VerifiedChains[0], hostOf(c.RemoteAddr())) {
		return nil
	}
	return fmt.Errorf("the certificate of %s is for none of its hosts: %s", subject(state.PeerCertificates[0]), strings.Join(hosts, ", "))
}

// Prove does the handshake, and returns the id of the certificate that the other end has
// proved to hold: its name as Java writes it, or the text that Settings.ClientID selects; ""
// for none.
func (c *Conn) Prove() (string, error) {
	if err := c.shake(); err != nil {
		return "", err
	}
	secure := c.secure.Load()
	if secure == nil {
		return "", nil
	}
	if shown := secure.ConnectionState().PeerCertificates; len(shown) > 0 {
		return c.source.clientID(shown[0]), nil
	}
	return "", nil
}

// Dial connects to host:port and does the handshake.
func (s *Source) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	bare, err := names.System().DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	secure := tls.Client(bare, s.dialer(host, hostOf(bare.RemoteAddr())))
	if err := secure.HandshakeContext(ctx); err != nil {
		bare.Close()
		return nil, fmt.Errorf("TLS with %s: %w", address, err)
	}
	return secure, nil
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
