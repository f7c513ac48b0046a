//go:build packages

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/certtest"
)

// helmVersion is the version of the program that renders the chart. It is a tool, not a
// requirement.
const helmVersion = "helm.sh/helm/v3/cmd/helm@v3.22.0"

// helm runs that program, or the one that HELM names.
func helm(t testing.TB, args ...string) string {
	t.Helper()
	out, err := tryHelm(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// tryHelm returns what the program has written, including its standard error if it has failed.
func tryHelm(t testing.TB, args ...string) (string, error) {
	c := exec.Command("go", append([]string{"run", helmVersion}, args...)...)
	if program := os.Getenv("HELM"); program != "" {
		c = exec.Command(program, args...)
	}
	c.Env = append(os.Environ(), "GOFLAGS=", "HELM_CACHE_HOME="+t.TempDir())
	var failed strings.Builder
	c.Stderr = &failed
	out, err := c.Output()
	if err != nil {
		return string(out) + failed.String(), err
	}
	return string(out), nil
}

func template(t testing.TB, args ...string) string {
	t.Helper()
	return helm(t, append([]string{"template", "conclave", "chart/conclave", "--namespace", "conclave", "--kube-version", "1.34.0"}, args...)...)
}

// everything sets all that is optional in the chart.
var everything = []string{"--set", "tls.secretName=conclave-tls,networkPolicy.enabled=true,metrics.enabled=true,observers=2,spreadStrictly=true," +
	"tokens.secretName=conclave-tokens,priorityClassName=system-cluster-critical,storage.className=fast,nodeSelector.disk=ssd,podAnnotations.a=b,imagePullSecrets[0].name=s"}

func TestChartMakesTheManifests(t *testing.T) {
	if out := helm(t, "lint", "--strict", "chart/conclave"); !strings.Contains(out, "0 chart(s) failed") {
		t.Error(out)
	}
	const file = "kubernetes/conclave.yaml"
	rendered := template(t)
	if os.Getenv("REWRITE") != "" {
		write(t, file, rendered)
	}
	if read(t, file) != rendered {
		t.Errorf("%s is not what the chart makes: REWRITE=1 make packages-test writes it", file)
	}
	full := template(t, everything...)
	for _, want := range []string{
		"server.5=conclave-4.conclave-servers.conclave.svc.cluster.local:2888:3888:observer\n", "replicas: 5\n", "secureClientPort=2281\n",
		"kind: NetworkPolicy\n", "metricsProvider.httpPort=7000\n", "name: tokens, mountPath: /tokens,", "secret: {secretName: conclave-tokens, ",
	} {
		if !strings.Contains(full, want) {
			t.Errorf("no %q in\n%s", want, full)
		}
	}
	if strings.Contains(full, "clientPort=2181") || strings.Contains(full, "ServiceMonitor") {
		t.Error("a port in clear text beside TLS, or a ServiceMonitor that nobody has asked for")
	}
	for tokens, want := range map[string]string{
		"":              "  - port: metrics\n",
		"conclave-keys": "  - port: metrics\n    authorization: {credentials: {name: conclave-keys, key: token}}\n",
	} {
		monitor := template(t, "--set", "metrics.enabled=true,metrics.serviceMonitor=true,tokens.secretName="+tokens)
		if _, rest, found := strings.Cut(monitor, "kind: ServiceMonitor\n"); !found || !strings.Contains(rest+"\n", want) {
			t.Errorf("no ServiceMonitor with %q in\n%s", want, monitor)
		}
	}
}

// TestChartsConfigurationIsTaken has the image's program check the configuration for each pod, and
// for a pod that does not exist.
func TestChartsConfigurationIsTaken(t *testing.T) {
	program := imageProgram(t, "usr/bin/conclave")
	config := filepath.Join(t.TempDir(), "zoo.cfg")
	write(t, config, configOf(read(t, "kubernetes/conclave.yaml")))
	check := func(pod string) (string, error) {
		out, err := exec.Command(program, "serve", "--config", config, "-D", "dataDir="+t.TempDir(), "-D", "conclave.myid="+pod, "--check").CombinedOutput()
		return string(out), err
	}
	for pod, want := range map[string]string{"conclave-0": "as server 1 of 3, participant", "conclave-2": "as server 3 of 3, participant"} {
		if out, err := check(pod); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", pod, err, out)
		}
	}
	if out, err := check("conclave-3"); err == nil {
		t.Errorf("a pod without a line is taken:\n%s", out)
	}
}

// TestChartsConfigurationWithTLSIsTaken has observers, and a certificate with only the names of
// pods. The check must print no warning.
func TestChartsConfigurationWithTLSIsTaken(t *testing.T) {
	program, dir := imageProgram(t, "usr/bin/conclave"), t.TempDir()
	authority := certtest.New("conclave-test")
	server := authority.Issue("conclave", "*.conclave-servers.conclave.svc.cluster.local")
	write(t, filepath.Join(dir, "server.pem"), string(server.PEM())+string(server.KeyPEM()))
	write(t, filepath.Join(dir, "authorities.pem"), string(authority.PEM()))
	config := filepath.Join(dir, "zoo.cfg")
	write(t, filepath.Join(dir, "tokens"), "0123456789abcdef\n")
	write(t, config, strings.NewReplacer("/tls/", dir+"/", "/tokens/", dir+"/").Replace(configOf(template(t, everything...))))
	out, err := exec.Command(program, "serve", "--config", config, "-D", "dataDir="+t.TempDir(), "-D", "conclave.myid=conclave-4", "--check").CombinedOutput()
	for _, want := range []string{"serves :2281 (TLS) ", "as server 5 of 5, observer", "servers    :2888: TLS, a certificate is required",
		"admin      0.0.0.0:8080: in clear text; each request must show a token of ", "metrics    0.0.0.0:7000: in clear text; each request must show a token of ",
		"another server is accepted if it has the certificate of a host of the configuration"} {
		if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "level=WARN") {
			t.Errorf("no %q, or a remark: %v\n%s", want, err, out)
		}
	}
}

// configOf returns the zoo.cfg in the manifests.
func configOf(manifests string) string {
	_, text, _ := strings.Cut(manifests, "  zoo.cfg: |\n")
	text, _, _ = strings.Cut(text, "\n---")
	return strings.ReplaceAll(text, "\n    ", "\n")[4:] + "\n"
}
