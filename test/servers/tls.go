//go:build linux

package servers

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"path/filepath"

	"github.com/conclave-project/conclave/internal/certtest"
)

// Certificates are a server's and its clients' certificates, in files of a directory:
// ca.pem, server.pem (with its key), client.pem, client.key, client-both.pem.
type Certificates struct {
	// Dir contains the files; Remove removes it.
	Dir string

	client *tls.Config
}

// NewCertificates creates an authority and the certificates, for localhost and 127.0.0.1.
func NewCertificates() (*Certificates, error) {
	dir, err := os.MkdirTemp("", "conclave-tls-")
	if err != nil {
		return nil, err
	}
	ca := certtest.New("authority")
	server, client := ca.Issue("server", "localhost", "127.0.0.1"), ca.Issue("client")
	c := &Certificates{Dir: dir, client: &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}}
	for name, content := range map[string][]byte{
		"ca.pem": ca.PEM(), "client.pem": client.PEM(), "client.key": client.KeyPEM(),
		"client-both.pem": append(client.KeyPEM(), client.PEM()...), "server.pem": append(server.KeyPEM(), server.PEM()...),
	} {
		if err := os.WriteFile(c.Path(name), content, 0o600); err != nil {
			c.Remove()
			return nil, err
		}
	}
	return c, nil
}

// Path returns the path of one of the files.
func (c *Certificates) Path(name string) string { return filepath.Join(c.Dir, name) }

// Remove removes the files. They are temporary, so errors do not matter.
func (c *Certificates) Remove() { _ = os.RemoveAll(c.Dir) }

// Config returns lines of zoo.cfg that make the client port accept TLS, too: clients
// without it still work. Apache's servers need Netty for it.
func (c *Certificates) Config() []string {
	return []string{
		"client.portUnification=true",
		"ssl.keyStore.location=" + c.Path("server.pem"),
		"ssl.trustStore.location=" + c.Path("ca.pem"),
		"ssl.clientAuth=want", // tests of ACLs have clients without an identity
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
	}
}

// Dial opens a connection over TLS, as a client without a certificate.
func (c *Certificates) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return (&tls.Dialer{Config: c.client}).DialContext(ctx, network, addr)
}
