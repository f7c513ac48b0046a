//go:build linux

package stores

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const kubernetesVersion = "1.37.1"

// kubernetesToken is the token of the administrator, the only user that the API server
// identifies by token.
const kubernetesToken = "administrator"

func registerKubernetes(register func(recipe)) {
	register(recipe{name: "kubernetes", version: kubernetesVersion, slow: true,
		build: buildKubernetes, start: startKubernetes})
}

func buildKubernetes(ctx context.Context, cache string) error {
	if err := buildEtcd(ctx, cache); err != nil {
		return err
	}
	version := "k8s.io/component-base/version."
	return goBuild(ctx, "kubernetes", ".", cache, "kube-apiserver", "-p", "1", "-ldflags", "-s -w"+
		" -X "+version+"gitVersion=v"+kubernetesVersion+" -X "+version+"gitMajor=1 -X "+version+"gitMinor=37")
}

// startKubernetes runs an API server ("kube-apiserver") on an etcd of its own ("etcd"),
// which is all that elections need of a cluster. Note["kubeconfig"] is the administrator's,
// Note["token"] the token in it, Note["certificate"] the file with the server's
// certificate.
func startKubernetes(ctx context.Context, cache, dir string) (*Server, error) {
	etcd, err := startEtcd(ctx, cache, dir)
	if err != nil {
		return nil, err
	}
	s := &Server{members: etcd.members}
	if err := s.startAPIServer(ctx, cache, dir, etcd.Addr); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) startAPIServer(ctx context.Context, cache, dir, etcd string) error {
	addrs, err := freeAddrs(1)
	if err != nil {
		return err
	}
	s.Addr = addrs[0]
	_, port, _ := net.SplitHostPort(s.Addr)
	key, tokens, certs := filepath.Join(dir, "sa.key"), filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "certs")
	if err := errors.Join(writeRSAKey(key),
		os.WriteFile(tokens, []byte(kubernetesToken+`,admin,1,"system:masters"`+"\n"), 0o600)); err != nil {
		return err
	}
	certificate := filepath.Join(certs, "apiserver.crt")
	err = s.add(ctx, &process{name: "kube-apiserver", dir: dir, answers: apiAnswers(s.Addr, certificate), args: []string{
		filepath.Join(cache, "kube-apiserver"), "--etcd-servers=http://" + etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port, "--cert-dir=" + certs,
		"--service-account-key-file=" + key, "--service-account-signing-key-file=" + key,
		"--service-account-issuer=https://" + s.Addr, "--token-auth-file=" + tokens, "--authorization-mode=RBAC",
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount"}}) // it would wait for a controller that does not run
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	s.Note = map[string]string{"kubeconfig": kubeconfig, "token": kubernetesToken, "certificate": certificate}
	s.URL = "kubernetes://default?kubeconfig=" + kubeconfig
	return os.WriteFile(kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: admin, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`, s.Addr, certificate, kubernetesToken), 0o600)
}

// writeRSAKey creates the key that signs service account tokens.
func writeRSAKey(file string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
}

// apiAnswers returns a check that the API server is ready and has created the namespace
// "default". Its certificate is created when it starts.
func apiAnswers(addr, certificate string) func(context.Context) error {
	return func(ctx context.Context) error {
		pemText, err := os.ReadFile(certificate)
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pemText)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
		for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
			if err := getAs(ctx, client, kubernetesToken, "https://"+addr+path); err != nil {
				return err
			}
		}
		return nil
	}
}

func getAs(ctx context.Context, client *http.Client, token, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}
