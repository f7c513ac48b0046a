package kubernetes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- {name: one, cluster: {server: "https://one.example:6443"}}
- {name: two, cluster: {server: "https://two.example:6443"}}
users:
- {name: me, user: {token: secret}}
contexts:
- {name: first, context: {cluster: one, user: me, namespace: jobs}}
- {name: second, context: {cluster: two, user: me}}
current-context: first
`

// writeKubeconfig writes a kubeconfig and returns its file name.
func writeKubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestURLsAreRead(t *testing.T) {
	file := writeKubeconfig(t)
	t.Setenv("KUBECONFIG", file)
	tests := []struct{ url, host, namespace, labels string }{
		{"kubernetes:///", "https://one.example:6443", "jobs", ""},
		{"kubernetes://", "https://one.example:6443", "jobs", ""},
		{"kubernetes://web", "https://one.example:6443", "web", ""},
		{"kubernetes://?context=second", "https://two.example:6443", "default", ""},
		{"kubernetes://web?server=https://127.0.0.1:1&label=app=web&label=tier=a%3Db", "https://127.0.0.1:1", "web", "app=web tier=a=b"},
		{"kubernetes://web?kubeconfig=" + file, "https://one.example:6443", "web", ""},
	}
	for _, test := range tests {
		config, options, err := parse(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		if config.Host != test.host || options.Namespace != test.namespace || config.BearerToken != "secret" {
			t.Errorf("%s: %s %s", test.url, config.Host, options.Namespace)
		}
		for _, pair := range strings.Fields(test.labels) {
			key, value, _ := strings.Cut(pair, "=")
			if options.Labels[key] != value {
				t.Errorf("%s: labels %v", test.url, options.Labels)
			}
		}
	}
}

func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	storetest.Opener(Open).HidesPasswords(t, "kubernetes", "kubernetes://NAMESPACE")
}

func TestBadURLsAreRefusedWithAGoodOne(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	for _, url := range []string{"", "http://web", "kubernetes://web/more", "kubernetes://web:80", "kubernetes://me:pw@web",
		"kubernetes://web?contxt=a", "kubernetes://web?context=", "kubernetes://web?events=no", "kubernetes://web?context=a&context=b", "kubernetes://web#a",
		"kubernetes:web", "kubernetes://%zz", "kubernetes://web?a=%zz;"} {
		_, _, err := Open(context.Background(), url)
		if err == nil || !strings.Contains(err.Error(), "kubernetes://NAMESPACE") {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: the error shows the password: %v", url, err)
		}
	}
}

func TestMissingConfigurationSaysWhatToSet(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	t.Setenv("HOME", t.TempDir())
	for _, url := range []string{"kubernetes://web", "kubernetes://web?kubeconfig=/nonexistent"} {
		if _, _, err := Open(context.Background(), url); err == nil || !strings.Contains(err.Error(), "KUBECONFIG") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	a := newAPIServer(t)
	for _, options := range []Options{{Namespace: "Web"}, {Namespace: "a.b"}, {Labels: map[string]string{"a b": "c"}},
		{Labels: map[string]string{"app": "not a value"}}} {
		if _, err := New(a.config(), options); err == nil {
			t.Errorf("%+v: no error", options)
		}
	}
}
