//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/internal/certtest"
)

// tlsFiles are the certificates of a server and of its clients, in a directory that
// ZK_TLS names for the suites: ca.pem, client.pem, client.key.
type tlsFiles struct{ dir string }

func makeTLS() (*tlsFiles, error) {
	dir, err := os.MkdirTemp("", "interop-tls-")
	if err != nil {
		return nil, err
	}
	f := &tlsFiles{dir}
	ca := certtest.New("authority")
	server, client := ca.Issue("server", "localhost", "127.0.0.1"), ca.Issue("client")
	for name, content := range map[string][]byte{
		"ca.pem": ca.PEM(), "client.pem": client.PEM(), "client.key": client.KeyPEM(),
		"client-both.pem": append(client.KeyPEM(), client.PEM()...), "server.pem": append(server.KeyPEM(), server.PEM()...),
	} {
		if err := os.WriteFile(f.path(name), content, 0o600); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (f *tlsFiles) path(name string) string { return filepath.Join(f.dir, name) }

// remove removes the files; what cannot be removed is a temporary file.
func (f *tlsFiles) remove() { _ = os.RemoveAll(f.dir) }

// serverConfig lets the client port speak TLS too: tests that write bytes of their own
// go on without. Apache's servers need Netty for it.
func (f *tlsFiles) serverConfig() []string {
	if f == nil {
		return nil
	}
	return []string{
		"client.portUnification=true",
		"ssl.keyStore.location=" + f.path("server.pem"),
		"ssl.trustStore.location=" + f.path("ca.pem"),
		"ssl.clientAuth=want", // tests of ACLs have clients that are nobody
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
	}
}

// variables tell the suites' clients; Java's take properties.
func (f *tlsFiles) variables() []string {
	if f == nil {
		return nil
	}
	return []string{"ZK_TLS=" + f.dir, "JAVA_TOOL_OPTIONS=" + strings.Join([]string{
		"-Dzookeeper.client.secure=true",
		"-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
		"-Dzookeeper.ssl.trustStore.location=" + f.path("ca.pem"),
	}, " ")}
}
