package secure

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keyStore returns a key store of the given type.
func keyStore(t testing.TB, i *certtest.Identity, form, password string) []byte {
	t.Helper()
	var out bytes.Buffer
	switch {
	case form == "PEM" && password == "":
		out.Write(append(i.KeyPEM(), i.PEM()...))
	case form == "PEM":
		der, err := pkcs8.MarshalPrivateKey(i.Key, []byte(password), nil)
		must(t, err)
		must(t, pem.Encode(&out, &pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der}))
		out.Write(i.PEM())
	case form == "JKS":
		store := keystore.New()
		must(t, store.SetPrivateKeyEntry("me", keystore.PrivateKeyEntry{CreationTime: time.Now(), PrivateKey: i.PKCS8(),
			CertificateChain: []keystore.Certificate{{Type: "X509", Content: i.Certificate.Raw}}}, []byte(password)))
		must(t, store.Store(&out, []byte(password)))
	case form == "PKCS12":
		content, err := pkcs12.Modern.Encode(i.Key, i.Certificate, []*x509.Certificate{i.By.Certificate}, password)
		must(t, err)
		out.Write(content)
	}
	return out.Bytes()
}

// trustStore returns a trust store of the given type.
func trustStore(t testing.TB, a *certtest.Authority, form, password string) []byte {
	t.Helper()
	var out bytes.Buffer
	switch form {
	case "PEM":
		out.Write(a.PEM())
	case "JKS":
		store := keystore.New()
		must(t, store.SetTrustedCertificateEntry("ca", keystore.TrustedCertificateEntry{CreationTime: time.Now(),
			Certificate: keystore.Certificate{Type: "X509", Content: a.Certificate.Raw}}))
		must(t, store.Store(&out, []byte(password)))
	case "PKCS12":
		content, err := pkcs12.Modern.EncodeTrustStore([]*x509.Certificate{a.Certificate}, password)
		must(t, err)
		out.Write(content)
	}
	return out.Bytes()
}

// file writes a file as a careful operator does: under another name first.
func file(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.WriteFile(path+".new", content, 0o600))
	must(t, os.Rename(path+".new", path))
	return path
}

// settings returns the settings, in PEM, of an identity that trusts an
// authority.
func settings(t testing.TB, dir string, who *certtest.Identity, trusted *certtest.Authority) Settings {
	t.Helper()
	return Settings{Key: Store{Location: file(t, dir, "key.pem", keyStore(t, who, "PEM", ""))},
		Trust: Store{Location: file(t, dir, "trust.pem", trusted.PEM())}}
}
