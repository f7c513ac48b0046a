// Package login sets up SASL from the files that operators of ZooKeeper use: a JAAS file,
// whose sections say how a server proves its identity and which users it knows, and
// Kerberos' key table and configuration.
//
//	jaas.go      the file and its sections
//	digest.go    sections of DigestLoginModule: DIGEST-MD5
//	kerberos.go  sections of Krb5LoginModule: the key table
//	cache.go     the tickets that another program has obtained
//	krb5.go      Kerberos' configuration
//	profile.go   the files of which the configuration consists
//	accept.go    the side of GSSAPI that learns the other's identity
//	initiate.go  the side that proves its identity
//	token.go     their messages (RFC 4121, RFC 4752)
package login

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/conclave-project/conclave/internal/sasl"
)

// Settings are the SASL settings that clients and servers share.
type Settings struct {
	File          string // java.security.auth.login.config: the JAAS file, "" if there is none
	Krb5Conf      string // java.security.krb5.conf, "" for KRB5_CONFIG or /etc/krb5.conf
	SuperPassword string // SASLAuthenticationProvider.superPassword: of the user super, instead of the file's
	FIPS          bool   // fips-mode: no DIGEST-MD5
}

// File is a JAAS file that has been read. Its methods may be used by many goroutines.
type File struct {
	settings Settings
	sections map[string]module
}

// Open reads the JAAS file that the settings name.
func Open(s Settings) (*File, error) {
	text, err := os.ReadFile(s.File)
	if err != nil {
		return nil, fmt.Errorf("java.security.auth.login.config: %w", err)
	}
	sections, err := parse(s.File, text)
	if err != nil {
		return nil, err
	}
	return &File{settings: s, sections: sections}, nil
}

// Has reports whether there is a section with a name.
func (f *File) Has(section string) bool {
	_, ok := f.sections[section]
	return ok
}

// Principal returns the Kerberos name of a server, "" if the section has none.
func (f *File) Principal(section string) string {
	m, ok := f.sections[section]
	if !ok || !m.kerberos() || m.options["principal"] == "*" {
		return ""
	}
	return m.options["principal"]
}

// Service names the service that an exchange is for. With DIGEST-MD5 both names are part of the
// proof.
type Service struct{ digest sasl.Digest }

// The services of a server: its clients, and the other servers.
var (
	Clients = Service{sasl.Digest{Protocol: "zookeeper", Host: "zk-sasl-md5"}}
	Peers   = Service{sasl.Digest{Protocol: "zookeeper-quorum", Host: "zk-quorum-sasl-md5"}}
)

// Server returns a function that begins exchanges in which the other side proves its identity by a
// section.
func (f *File) Server(section string, service Service) (func() sasl.Server, error) {
	m, err := f.section(section)
	if err != nil {
		return nil, err
	}
	if m.kerberos() {
		return f.acceptor(section, m)
	}
	return f.digestServer(section, m, service)
}

// Client returns a function that begins exchanges in which this server proves its
// identity to a server with a principal such as zkquorum/host@REALM. With DIGEST-MD5
// the principal is ignored.
func (f *File) Client(section string, service Service) (Begin, error) {
	m, err := f.section(section)
	if err != nil {
		return nil, err
	}
	if m.kerberos() {
		return f.initiator(section, m)
	}
	return f.digestClient(section, m, service)
}

// Begin begins an exchange in which this side proves its identity to a principal. The
// context limits the requests to a KDC.
type Begin func(ctx context.Context, principal string) (sasl.Client, error)

func (f *File) section(name string) (*module, error) {
	m, ok := f.sections[name]
	if !ok {
		return nil, fmt.Errorf("%s has no section %s", f.settings.File, name)
	}
	if !m.kerberos() && !m.digest() {
		return nil, f.wrong(name, "class %s is not supported: use DigestLoginModule or Krb5LoginModule", m.class)
	}
	return &m, nil
}

// wrong returns an error about a section.
func (f *File) wrong(section, format string, args ...any) error {
	return fmt.Errorf("%s: section %s: %w", f.settings.File, section, fmt.Errorf(format, args...))
}

// Several classes have the same meaning: Apache ZooKeeper's, and those of the Java
// runtimes of Oracle and IBM.
func (m *module) digest() bool   { return strings.HasSuffix(m.class, ".DigestLoginModule") }
func (m *module) kerberos() bool { return strings.HasSuffix(m.class, ".Krb5LoginModule") }

// Kerberos reports whether a section uses Kerberos.
func (f *File) Kerberos(section string) bool {
	m, ok := f.sections[section]
	return ok && m.kerberos()
}
