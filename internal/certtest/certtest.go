// Package certtest is for tests: it makes authorities and certificates, valid for a day.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// Authority makes certificates.
type Authority struct {
	Key         *ecdsa.PrivateKey
	Certificate *x509.Certificate
}

// Identity is a key with its certificate.
type Identity struct {
	Key         *ecdsa.PrivateKey
	Certificate *x509.Certificate
	By          *Authority
}

// New returns an authority with a common name. It panics if there is no randomness.
func New(name string) *Authority {
	a := &Authority{Key: newKey()}
	t := template(name)
	t.IsCA, t.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign|x509.KeyUsageDigitalSignature
	a.Certificate = sign(t, t, a.Key, a.Key)
	return a
}

// Issue makes a certificate of the organization Conclave with a common name, for hosts,
// which are names or addresses.
func (a *Authority) Issue(name string, hosts ...string) *Identity {
	return a.IssueAs(func(*x509.Certificate) {}, name, hosts...)
}

// IssueAs is Issue with a function that may change the template before it is signed.
func (a *Authority) IssueAs(change func(*x509.Certificate), name string, hosts ...string) *Identity {
	t, key := template(name), newKey()
	t.Subject.Organization, t.KeyUsage = []string{"Conclave"}, x509.KeyUsageDigitalSignature
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	change(t)
	return &Identity{Key: key, Certificate: sign(t, a.Certificate, key, a.Key), By: a}
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(err)
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	return key
}

func sign(t, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), by)
	must(err)
	c, err := x509.ParseCertificate(der)
	must(err)
	return c
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return block("CERTIFICATE", a.Certificate.Raw) }

// Pool returns a pool with only this authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// PEM returns the certificate, followed by its authority's.
func (i *Identity) PEM() []byte {
	return append(block("CERTIFICATE", i.Certificate.Raw), i.By.PEM()...)
}

// KeyPEM returns the key, unencrypted.
func (i *Identity) KeyPEM() []byte { return block("PRIVATE KEY", i.PKCS8()) }

// PKCS8 returns the key.
func (i *Identity) PKCS8() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(i.Key)
	must(err)
	return der
}

// TLS returns the identity in the form that Go's crypto/tls uses.
func (i *Identity) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{i.Certificate.Raw, i.By.Certificate.Raw}, PrivateKey: i.Key, Leaf: i.Certificate}
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
