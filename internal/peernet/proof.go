package peernet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/sasl"
)

// Proofs is how servers prove their identity to each other by SASL, before anything
// else is accepted: ZooKeeper's quorum.auth. Its functions are called by many
// goroutines.
type Proofs struct {
	// Client begins an exchange in which this server proves its identity to a server
	// that it dialed at a host name or an address. Nil: it proves nothing.
	Client func(host string) (sasl.Client, error)
	// Server begins an exchange with a server that dialed. Nil: no exchange is
	// expected, and a server that begins one is disconnected.
	Server func() sasl.Server
	// Must means that servers that prove nothing are refused.
	Must bool
	// Admit checks whether a server that has proved a name is one of the ensemble and may act under the
	// other name. It returns the host of the server, "" for any. Nil admits all.
	Admit func(proved, acts string) (host string, err error)
}

// proofRoundsMax is the most round trips of an exchange, as in Apache ZooKeeper.
const proofRoundsMax = 5

var errNotProved = errors.New("peernet: the server has not authenticated, but must (quorum.auth.serverRequireSasl)")

// dialed proves this server's identity to a server that it has dialed. The socket must have a
// deadline.
func (p *Proofs) dialed(socket net.Conn, host string) error {
	if p == nil || p.Client == nil {
		return nil
	}
	c, err := p.Client(host)
	if err != nil {
		return err
	}
	if err := prove(socket, c); err != nil {
		return fmt.Errorf("authenticate to %s: %w", host, err)
	}
	return nil
}

func prove(socket net.Conn, c sasl.Client) error {
	token, done := []byte{}, false
	var err error
	if c.First() {
		if token, _, err = c.Next(nil); err != nil {
			return err
		}
	}
	for range proofRoundsMax {
		if err := sendProof(socket, peerwire.ProofGoesOn, token); err != nil {
			return err
		}
		status, said, err := receiveProof(socket)
		switch {
		case err != nil:
			return err
		case status == peerwire.ProofHolds && done:
			return nil
		case status == peerwire.ProofHolds:
			if token, done, err = c.Next(said); err == nil && (!done || token != nil) {
				err = errors.New("the other side ended the exchange too early")
			}
			return err
		case status != peerwire.ProofGoesOn || done:
			return errors.New("the other side refused it")
		}
		if token, done, err = c.Next(said); err != nil {
			return err
		}
	}
	return errors.New("the exchange has no end")
}

// proofWait is how long to wait for the first byte of a server that need not prove itself:
// it begins at once or not at all. On the election port, a server that was dialed back may
// have nothing to send.
const proofWait = 500 * time.Millisecond

// shaking is a connection with a handshake before its first byte, such as a TLS connection. The
// handshake has its own time limit, because the network, or a check for revoked certificates, may
// be slow.
type shaking interface{ Prove() (string, error) }

// accepted lets a server that dialed prove its identity, and returns the connection to
// read from after that. It sets the deadline of the socket, also before it returns.
func (p *Proofs) accepted(socket net.Conn, deadline time.Time) (net.Conn, error) {
	if err := socket.SetDeadline(deadline); err != nil || p == nil || p.Server == nil {
		return socket, err
	}
	if s, is := socket.(shaking); is {
		if _, err := s.Prove(); err != nil {
			return nil, err
		}
	}
	if wait := time.Now().Add(proofWait); !p.Must && wait.Before(deadline) {
		_ = socket.SetReadDeadline(wait)
	}
	var head [peerwire.ProofHeadBytes]byte
	n, err := io.ReadFull(socket, head[:peerwire.ProofMarkBytes])
	_ = socket.SetReadDeadline(deadline)
	if err != nil || !peerwire.IsProof(head[:]) {
		if p.Must {
			return nil, errors.Join(errNotProved, err)
		}
		return &admitted{Conn: socket, first: head[:n:n]}, nil // an error will show up again
	}
	host, err := p.judge(socket, head[:])
	if err != nil {
		_ = sendProof(socket, peerwire.ProofRefused, []byte{})
		return nil, fmt.Errorf("peernet: a server failed to authenticate: %w", err)
	}
	return &admitted{Conn: socket, host: host}, nil
}

// judge carries out an exchange whose mark has been read into head, and returns the host that
// was proved, "" for any.
func (p *Proofs) judge(socket net.Conn, head []byte) (host string, err error) {
	s := p.Server()
	for round := 0; ; round++ {
		if round > 0 {
			if _, err := io.ReadFull(socket, head[:peerwire.ProofMarkBytes]); err != nil {
				return "", err
			}
		}
		_, token, err := proofAfterMark(socket, head)
		if err != nil {
			return "", err
		}
		answer, done, err := s.Next(token)
		if err == nil && done && p.Admit != nil {
			host, err = p.Admit(s.Names())
		}
		switch {
		case err != nil:
			return "", err
		case done:
			return host, sendProof(socket, peerwire.ProofHolds, answer)
		case round == proofRoundsMax:
			return "", errors.New("the exchange has no end")
		}
		if err := sendProof(socket, peerwire.ProofGoesOn, answer); err != nil {
			return "", err
		}
	}
}

func sendProof(socket net.Conn, status peerwire.ProofStatus, token []byte) error {
	_, err := socket.Write(peerwire.AppendProof(nil, status, token))
	return err
}

func receiveProof(socket net.Conn) (peerwire.ProofStatus, []byte, error) {
	var head [peerwire.ProofHeadBytes]byte
	if _, err := io.ReadFull(socket, head[:peerwire.ProofMarkBytes]); err != nil {
		return 0, nil, err
	}
	return proofAfterMark(socket, head[:])
}

// proofAfterMark reads the rest of a proof whose mark is in head. Memory for the token
// grows with the bytes received.
func proofAfterMark(socket net.Conn, head []byte) (peerwire.ProofStatus, []byte, error) {
	if _, err := io.ReadFull(socket, head[peerwire.ProofMarkBytes:]); err != nil {
		return 0, nil, err
	}
	status, length, err := peerwire.DecodeProofHead(head)
	if err != nil {
		return 0, nil, err
	}
	token := []byte{}
	for len(token) < length {
		at := len(token)
		token = append(token, make([]byte, min(length-at, frameStep))...)
		if _, err := io.ReadFull(socket, token[at:]); err != nil {
			return 0, nil, err
		}
	}
	return status, token, nil
}

// admitted is a connection whose other end was accepted.
type admitted struct {
	net.Conn
	first []byte // bytes that were looked at, but not yet read by the caller
	host  string // the host that the other end has proved, "" if none
}

func (a *admitted) Read(into []byte) (int, error) {
	if len(a.first) == 0 {
		return a.Conn.Read(into)
	}
	n := copy(into, a.first)
	a.first = a.first[n:]
	return n, nil
}

// IsOf implements identified: it checks both the host that was proved and the certificate.
func (a *admitted) IsOf(hosts []string) error {
	named := func(host string) bool { return strings.EqualFold(host, a.host) }
	if a.host != "" && !slices.ContainsFunc(hosts, named) {
		return fmt.Errorf("it has authenticated as the server of %s, which is not one of its hosts: %s", a.host, strings.Join(hosts, ", "))
	}
	if c, ok := a.Conn.(identified); ok {
		return c.IsOf(hosts)
	}
	return nil
}

// CloseWrite closes the sending side.
func (a *admitted) CloseWrite() error {
	if half, ok := a.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// NetConn returns the connection below, see bare.
func (a *admitted) NetConn() net.Conn { return bare(a.Conn) }
