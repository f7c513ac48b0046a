package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// Proof is a client's side of one exchange of SASL (RFC 4422), for one goroutine.
type Proof interface {
	// First reports whether the client begins with a token, which Next(nil) returns; otherwise it
	// sends an empty one.
	First() bool
	// Next takes what the server has sent, and returns what to send, nil for nothing, and whether
	// this side is done. An error ends the connection, and the next server is tried.
	Next(token []byte) (answer []byte, done bool, err error)
}

// DigestMD5 proves that the program knows the password of a user (RFC 2831), which the servers
// have in the section Server of their JAAS file. The server proves the same. An eavesdropper can
// guess the password from the exchange: use TLS as well.
func DigestMD5(user, password string) func(context.Context, string) (Proof, error) {
	return func(context.Context, string) (Proof, error) {
		return sasl.DigestClient(sasl.Digest{Protocol: "zookeeper", Host: "zk-sasl-md5"}, user, password), nil
	}
}

// beginProof computes the first token. If that fails, no session has been created yet that
// would be left behind.
func (l *link) beginProof(ctx context.Context) (err error) {
	if l.c.options.Proof == nil {
		return nil
	}
	if l.proof, err = l.c.options.Proof(ctx, l.c.nameOf(l.address)); err == nil && l.proof.First() {
		l.token, _, err = l.proof.Next(nil)
	}
	if err != nil {
		return fmt.Errorf("prove who this client is: %w", err)
	}
	return nil
}

// prove proves to the server who this client is, and then passes the greeting to the
// machine. Until then the machine sends nothing; it gives up the server if this takes too
// long.
func (l *link) prove() error {
	token, done := l.token, false
	for {
		said, err := l.ask(token)
		if err != nil || done {
			return l.proved(err)
		}
		if said == nil {
			return l.proved(fmt.Errorf("%w: the server asks for no proof by SASL", zk.ErrAuthFailed))
		}
		if token, done, err = l.proof.Next(said); err != nil || done && token == nil {
			return l.proved(err)
		}
	}
}

// ask sends a token and waits for the answer; nil for none.
func (l *link) ask(token []byte) ([]byte, error) {
	if token == nil {
		token = []byte{}
	}
	l.c.mu.Lock()
	l.send(&zk.Request{Op: zk.OpSASL, Data: token})
	l.c.mu.Unlock()
	for {
		frame, whole, err := l.next()
		switch {
		case err != nil:
			return nil, err
		case whole:
			return proofAnswer(frame)
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

func proofAnswer(frame []byte) ([]byte, error) {
	h, body, err := wire.DecodeReplyHeader(frame)
	switch {
	case err != nil:
		return nil, err
	case h.Xid != 0:
		return nil, fmt.Errorf("reply with xid %d in an exchange of SASL", h.Xid)
	case h.Code == zk.ErrAuthFailed, h.Code == zk.ErrSessionClosedRequireSASL:
		return nil, zk.ErrAuthFailed
	case h.Code != zk.OK:
		return nil, fmt.Errorf("exchange of SASL: %w", h.Code)
	}
	d := jute.NewDecoder(body, sasl.TokenBytesMax)
	said := d.Bytes()
	return bytes.Clone(said), d.Err()
}

// proved ends the exchange: it passes on the greeting, or a refusal, which ends the
// session.
func (l *link) proved(err error) error {
	greeting := *l.held
	l.held, l.proof, l.token = nil, nil, nil
	if err != nil {
		if errors.Is(err, zk.ErrAuthFailed) {
			greeting = clientsession.Event{Kind: clientsession.Refused, Conn: l.conn}
		} else {
			return err
		}
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	l.c.step(greeting)
	return err
}
