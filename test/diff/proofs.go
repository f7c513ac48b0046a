//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/conclave-project/conclave/internal/jute"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/zk"
)

// saslPassword is the password of each user in the JAAS file.
const saslPassword = "secret"

// proofs are the files by which servers verify names: certificates, and the users of a JAAS
// file.
type proofs struct {
	dir       string
	authority *certtest.Authority
}

// nameOf returns the name of a certificate, as Java writes it.
func nameOf(who string) string { return "CN=" + who + ",O=Conclave" }

func newProofs() (*proofs, error) {
	dir, err := os.MkdirTemp("", "diff-proofs-")
	if err != nil {
		return nil, err
	}
	p := &proofs{dir: dir, authority: certtest.New("authority")}
	server := p.authority.Issue("server", "127.0.0.1")
	jaas := "Server { org.apache.zookeeper.server.auth.DigestLoginModule required"
	for _, who := range []string{"bob", "root"} {
		jaas += fmt.Sprintf(` user_%s="%s"`, who, saslPassword)
	}
	for name, content := range map[string][]byte{
		"server.pem": append(server.KeyPEM(), server.PEM()...), "ca.pem": p.authority.PEM(), "jaas.conf": []byte(jaas + "; };\n"),
	} {
		if err := os.WriteFile(p.path(name), content, 0o600); err != nil {
			p.remove()
			return nil, err
		}
	}
	return p, nil
}

func (p *proofs) path(name string) string { return filepath.Join(p.dir, name) }

// remove removes the files. They are temporary, so errors do not matter.
func (p *proofs) remove() { _ = os.RemoveAll(p.dir) }

// options returns options for a server that verifies names by both, on one port, where a
// client without a certificate has no name. Apache needs Netty for that, and classes by
// name.
func (p *proofs) options() servers.Options {
	const classes = "org.apache.zookeeper.server."
	return servers.Options{
		Config: []string{
			"serverCnxnFactory=" + classes + "NettyServerCnxnFactory",
			"client.portUnification=true",
			"ssl.keyStore.location=" + p.path("server.pem"),
			"ssl.trustStore.location=" + p.path("ca.pem"),
			"ssl.clientAuth=want",
			"authProvider.1=" + classes + "auth.SASLAuthenticationProvider",
			"authProvider.2=" + classes + "auth.X509AuthenticationProvider",
			"X509AuthenticationProvider.superUser=" + nameOf("root"),
			"superUser=root",
			"fips-mode=false", // otherwise DIGEST-MD5 is off
		},
		Properties: map[string]string{"java.security.auth.login.config": p.path("jaas.conf")},
	}
}

// shows returns the clients' TLS configurations, by certificate.
func (p *proofs) shows() map[string]*tls.Config {
	all := map[string]*tls.Config{}
	for _, who := range []string{"bob", "root"} {
		all[who] = &tls.Config{RootCAs: p.authority.Pool(), ServerName: "127.0.0.1", Certificates: []tls.Certificate{p.authority.Issue(who).TLS()}}
	}
	return all
}

// compareProofs plays the matrix of callers with proofs on servers that verify them. It
// returns the length of the script.
func compareProofs(ctx context.Context, kinds [2]servers.Kind, o options) (requests int, same bool, err error) {
	files, err := newProofs()
	if err != nil {
		return 0, false, err
	}
	defer files.remove()
	p, err := newPair(ctx, kinds, never, files.options())
	if err != nil {
		return 0, false, err
	}
	defer p.stop()
	m := matrix(withProofs)
	m.shows = files.shows()
	same, err = p.one(m, nil, o)
	return len(m.steps), same, err
}

// prove proves a name by DIGEST-MD5. The messages of both sides have random parts, and are
// not recorded; whether each side accepts the other is.
func (r *run) prove(at int, s *step) {
	c := r.conns[s.conn]
	if c == nil {
		r.say(at, "skipped: no connection")
		return
	}
	client := sasl.DigestClient(sasl.Digest{Protocol: "zookeeper", Host: "zk-sasl-md5"}, s.user, saslPassword)
	for token, done := []byte{}, false; !done; {
		// An error shows as the end of the stream below.
		_, _ = c.net.Write(appendStep(nil, &step{op: zk.OpSASL, body: jute.AppendBytes(nil, token)}, 0))
		h, body, err := r.frame(s.conn, replyWithin)
		if err == nil && h.Code != 0 {
			err = h.Code
		}
		var said zk.Result
		if err == nil {
			said, err = wire.DecodeResult(zk.OpSASL, 0, body)
		}
		if err == nil {
			token, done, err = client.Next(said.Data)
		}
		if err != nil {
			r.say(at, "c%d: %v", s.conn, err)
			return
		}
	}
	r.say(at, "proved")
}
