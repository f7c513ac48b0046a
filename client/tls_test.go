package client

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
)

func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true,
		BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestServersAreCheckedByTheNameTheyAreListedBy(t *testing.T) {
	cert, pool := certificate(t, "localhost")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	must(t, err)
	defer listener.Close()
	f := &fake{}
	go f.serve(listener)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	o := Options{TLS: &tls.Config{RootCAs: pool}}
	c, err := Dial(awaittest.Within(t), "localhost:"+port, o)
	must(t, err)
	_, err = c.Set(awaittest.Within(t), "/a", nil, -1)
	must(t, err)
	must(t, c.Close())

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if c, err := Dial(ctx, "127.0.0.1:"+port, o); err == nil {
		c.Close()
		t.Error("a server was taken whose certificate has another name")
	}
}
