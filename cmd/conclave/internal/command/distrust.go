package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
)

// Hints about servers that accept connections and give no session.
const (
	noSessionHint = "something listens there but opens no session, as servers without a quorum do; `conclave status` shows their state"
	distrustHint  = "name the authority of the servers' certificates with --tls-ca FILE or CONCLAVE_TLS_CA; without it, the system's authorities count"
	wrongNameHint = "the certificate is for another host: name the server as its certificate does"
	refusedHint   = "the server refuses this client: name a certificate that it accepts with --tls-cert FILE or CONCLAVE_TLS_CERT"
	speaksTLSHint = "that port speaks TLS: write zk+tls://HOST:PORT, with --tls-ca for the authority of its certificate"
	speaksNoTLS   = "that port does not speak TLS: write zk://HOST:PORT, or the port of the server that does"
	unprovedHint  = "the section Client of --jaas does not prove who this client is: with Kerberos, zookeeper/HOST must be a principal, where HOST is as in --server, and the KDC must know the keys or the ticket that the section names"
	maybeTLSHint  = "; or does this port speak TLS? Write zk+tls:// for one that does, zk:// for one that does not"
)

// distrusted returns why a server's certificate is not trusted; nil if the error does not
// concern that.
func distrusted(err error) error {
	var refused *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		return refused
	}
	var host x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	if errors.As(err, &host) || errors.As(err, &authority) || errors.As(err, &invalid) {
		return err
	}
	return nil
}

// certificateHint is what to do about a certificate that is not trusted.
func certificateHint(err error) string {
	if errors.As(err, new(x509.HostnameError)) {
		return wrongNameHint
	}
	return distrustHint
}

// unsessionedHint is what to do where something listens and gives no session. It looks at how
// the first of the servers that answers speaks.
func unsessionedHint(ctx context.Context, err error, addresses []string, overTLS bool) string {
	switch {
	case distrusted(err) != nil:
		return certificateHint(err)
	case overTLS && alerted(err):
		return refusedHint
	case errors.As(err, &unproved{}):
		return unprovedHint
	}
	for _, address := range addresses {
		switch speaks, told := speaksTLS(ctx, address, overTLS); {
		case !told:
		case speaks && !overTLS:
			return speaksTLSHint
		case !speaks && overTLS:
			return speaksNoTLS
		default:
			return noSessionHint
		}
	}
	return noSessionHint + maybeTLSHint
}

// speaksTLS finds out whether a port uses TLS: it asks for the server's state in clear
// text, and tries a handshake. What the client has tried comes first, because a port may
// accept both. told is false for a port that answers neither.
func speaksTLS(ctx context.Context, address string, overTLS bool) (speaks, told bool) {
	ctx, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	if overTLS && shakesHands(ctx, address) {
		return true, true
	}
	if answer, err := (asker{}).tell(ctx, address, "srvr", answerBytesMax); err == nil && !strings.HasPrefix(answer, "\x15\x03") {
		return false, true
	}
	speaks = !overTLS && shakesHands(ctx, address)
	return speaks, speaks
}

// shakesHands reports whether a port answers a TLS handshake, even with a refusal.
func shakesHands(ctx context.Context, address string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer conn.Close()
	// Nothing is sent over this connection, and nothing is trusted except that the port
	// speaks TLS.
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	return err == nil || alerted(err)
}

// alerted reports whether the other side has refused a handshake with a TLS alert.
func alerted(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// distrust ends the wait for servers when none of them is trusted: another attempt would
// change nothing.
type distrust struct {
	mu   sync.Mutex
	left []string // servers about which nothing is known yet
	last error    // why one of them is not trusted
	all  chan error
}

func newDistrust(servers []string) *distrust {
	return &distrust{left: slices.Clone(servers), all: make(chan error, 1)}
}

// over wraps a dial function and records the results.
func (d *distrust) over(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if distrusted(err) != nil {
			d.note(address, err)
		}
		return conn, err
	}
}

func (d *distrust) note(address string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = slices.DeleteFunc(d.left, func(one string) bool { return one == address })
	if d.last = err; len(d.left) == 0 {
		select {
		case d.all <- err:
		default:
		}
	}
}

// why returns an error about a certificate if no server is trusted; otherwise nil, also for
// a nil distrust.
func (d *distrust) why() error {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.left) > 0 {
		return nil
	}
	return d.last
}

// until returns a context that ends when no server is trusted. With a nil distrust it does
// not end for that reason.
func (d *distrust) until(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	if d != nil {
		go func() {
			select {
			case err := <-d.all:
				end(err)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { end(nil) }
}
