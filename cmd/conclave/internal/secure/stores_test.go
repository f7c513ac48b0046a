package secure

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/certtest"
)

func TestStoresOfEveryTypeAreRead(t *testing.T) {
	ca := certtest.New("ca")
	me := ca.Issue("me", "localhost")
	for _, c := range []struct{ form, ending, password string }{
		{"PEM", "pem", ""}, {"PEM", "pem", "secret"}, {"JKS", "jks", "secret"}, {"PKCS12", "p12", "secret"},
		{"PKCS12", "jks", "secret"}, // keytool has used this name since Java 9
		{"JKS", "p12", "secret"},
	} {
		t.Run(c.form+" "+c.ending+" "+c.password, func(t *testing.T) {
			dir := t.TempDir()
			path := file(t, dir, "password", []byte(c.password+"\n"))
			key := Store{Location: file(t, dir, "key."+c.ending, keyStore(t, me, c.form, c.password)), Password: c.password}
			trust := Store{Location: file(t, dir, "trust", trustStore(t, ca, c.form, c.password)), Type: strings.ToLower(c.form), PasswordPath: path}
			s, err := Open("ssl.", Settings{Key: key, Trust: trust}, true, slog.Default())
			must(t, err)
			if got := s.read.Load().subject(); got != "CN=me,O=Conclave" {
				t.Errorf("the key is that of %q", got)
			}
		})
	}
}

func TestWhatCannotBeReadIsToldWithItsSetting(t *testing.T) {
	dir := t.TempDir()
	ca, other := certtest.New("ca"), certtest.New("other")
	me := ca.Issue("me")
	good := settings(t, dir, me, ca)
	key, _, _ := strings.Cut(string(keyStore(t, me, "PEM", "")), "-----BEGIN CERTIFICATE")
	_, certificate, _ := strings.Cut(string(keyStore(t, other.Issue("you"), "PEM", "")), "-----BEGIN CERTIFICATE")
	foreign := []byte(key + "-----BEGIN CERTIFICATE" + certificate)
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"no key store", func(s *Settings) { s.Key.Location = "" }, "ssl.keyStore.location is not set"},
		{"no trust store", func(s *Settings) { s.Trust.Location = "" }, "ssl.trustStore.location is not set"},
		{"missing", func(s *Settings) { s.Key.Location = dir + "/none.pem" }, "ssl.keyStore: stat"},
		{"no type", func(s *Settings) { s.Trust.Location = file(t, dir, "trust.crt", trustStore(t, ca, "PEM", "")) }, "name it .pem, .jks or .p12"},
		{"another type", func(s *Settings) { s.Key.Type = "KEYRING" }, `type "KEYRING" are unknown`},
		{"BCFKS", func(s *Settings) { s.Key.Type = "BCFKS" }, "convert it with keytool -importkeystore -srckeystore " + good.Key.Location + " -srcstoretype BCFKS -destkeystore " + dir + "/key.p12 -deststoretype PKCS12"},
		{"BCFKS by its name", func(s *Settings) { s.Trust.Location = file(t, dir, "t.bcfks", nil) }, "-destkeystore " + dir + "/t.p12"},
		{"wrong password", func(s *Settings) {
			s.Key = Store{Location: file(t, dir, "k.jks", keyStore(t, me, "JKS", "secret")), Password: "other"}
		}, "password"},
		{"wrong password of PKCS12", func(s *Settings) {
			s.Key = Store{Location: file(t, dir, "k.p12", keyStore(t, me, "PKCS12", "secret")), Password: "other"}
		}, "password"},
		{"wrong password of PEM", func(s *Settings) {
			s.Key = Store{Location: file(t, dir, "e.pem", keyStore(t, me, "PEM", "secret")), Password: "other"}
		}, "password"},
		{"no key in it", func(s *Settings) { s.Key.Location = s.Trust.Location }, "no private key"},
		{"no certificate in it", func(s *Settings) { s.Trust.Location = file(t, dir, "empty.pem", nil) }, "no certificate"},
		{"another's certificate", func(s *Settings) { s.Key.Location = file(t, dir, "foreign.pem", foreign) }, "not that of its first certificate"},
		{"old protocol", func(s *Settings) { s.Protocols = "TLSv1.2,TLSv1.1" }, `"TLSv1.1" is not supported`},
		{"unknown suite", func(s *Settings) { s.Ciphers = "TLS_NONE" }, "TLS_NONE is not supported"},
		{"suites of a version that is off", func(s *Settings) { s.Ciphers, s.Protocols = "TLS_AES_128_GCM_SHA256", "TLSv1.2" }, "no suite of TLSv1.2"},
		{"client auth", func(s *Settings) { s.ClientAuth = "maybe" }, "none, want or need"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good
			c.change(&s)
			_, err := Open("ssl.", s, true, slog.Default())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open says %v, want %q", err, c.want)
			}
		})
	}
}
