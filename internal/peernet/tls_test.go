package peernet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// certified returns a TLS listener and dialer with one certificate.
func certified(t *testing.T) (func() net.Listener, DialFunc) {
	t.Helper()
	own, pool := certificate(t)
	config := &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	return func() net.Listener { return tls.NewListener(listen(t, "127.0.0.1:0"), config) }, (&tls.Dialer{Config: config}).DialContext
}

// certificate returns a certificate and its authority.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestLinksOverTLS(t *testing.T) {
	leavesNothing(t)
	listenTLS, dial := certified(t)
	leader := newServer(t, listenTLS(), nil)
	learner := startServer(t, func(o *LinksOptions) { o.Dial = dial })
	ends(t, garbage(t, leader.address))
	toLeader, toLearner := join(learner, leader)
	for i := range 1000 {
		learner.Send(toLeader, &zab.Message{Kind: zab.KindAck, Zxid: zk.Zxid(i)})
		learner.Flush()
		leader.receives(zab.KindAck, zk.Zxid(i))
	}
	leader.Send(toLearner, &zab.Message{Kind: zab.KindSnap, Zxid: 9})
	leader.SendSnapshot(toLearner, func(w io.Writer) error { return writeSnapshot(w, 1000) })
	learner.receives(zab.KindSnap, 9)
	if c := learner.next("snapshot"); c.snapshot != "1 sessions 1001 znodes" {
		t.Error(c.snapshot)
	}
	leader.Send(toLearner, proposal(10, "after it"))
	leader.Flush()
	learner.receives(zab.KindProposal, 10)
	leader.Send(toLearner, proposal(11, "last"))
	leader.Close(toLearner)
	learner.receives(zab.KindProposal, 11)
	learner.next("down")
	leader.next("down")
}

// A server whose certificate is refused by another logs this, whichever number is larger. With TLS 1.3 it
// learns of the refusal only after its side of the handshake is complete.
func TestServerWhoseCertificateIsRefusedSaysSo(t *testing.T) {
	for _, peer := range []quorum.ID{1, 3} {
		t.Run(fmt.Sprint(peer), func(t *testing.T) {
			leavesNothing(t)
			listenTLS, _ := certified(t)
			other := newParticipant(t, peer, listenTLS(), newBook(), nil)
			own, _ := certificate(t)
			dialer := &tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true}}
			var log awaittest.Log
			b := newBook()
			b.set(peer, other.address)
			refused := newParticipant(t, 2, listen(t, "127.0.0.1:0"), b, func(o *VotesOptions) {
				o.Dial, o.Logger = dialer.DialContext, slog.New(slog.NewTextHandler(&log, nil))
			})
			refused.Send(peer, notification(2, 1))
			awaittest.Until(t, "it is told why", func() bool { return log.Count("remote error: tls:") > 0 })
		})
	}
}

func TestVotesOverTLS(t *testing.T) {
	leavesNothing(t)
	listenTLS, dial := certified(t)
	b := newBook()
	change := func(o *VotesOptions) { o.Dial = dial }
	small, large := newParticipant(t, 1, listenTLS(), b, change), newParticipant(t, 2, listenTLS(), b, change)
	b.set(1, small.address)
	b.set(2, large.address)
	ends(t, garbage(t, small.address))
	small.Send(2, notification(1, 1))
	large.receives(t, 1, 1)
	large.Send(1, notification(2, 2))
	small.receives(t, 2, 2)
}

// garbage sends something that is not TLS.
func garbage(t *testing.T, a peerwire.Address) net.Conn {
	t.Helper()
	socket := dialRaw(t, a)
	_, err := socket.Write([]byte("not TLS at all, but a few bytes more than the head of a record"))
	must(t, err)
	return socket
}
