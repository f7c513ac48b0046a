//go:build conformance

package deploy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/stores"
)

const namespace = "billing"

// caller calls the API server with one token.
type caller struct {
	t      testing.TB
	base   string
	token  string
	client *http.Client
}

func newCaller(t testing.TB, s *stores.Server) *caller {
	t.Helper()
	text, err := os.ReadFile(s.Note["certificate"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t, "https://" + s.Addr, s.Note["token"], &http.Client{Transport: transport, Timeout: limit}}
}

// call makes a request and returns the status and the body.
func (c *caller) call(method, path, kind, body string) (int, []byte) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", kind)
	response, err := c.client.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, text
}

// create posts an object, which the server must accept unchanged, and decodes
// the answer into the result.
func (c *caller) create(path, kind, body string, result any) {
	c.t.Helper()
	code, text := c.call(http.MethodPost, path+"?fieldValidation=Strict", kind, body)
	if code != http.StatusCreated {
		c.t.Fatalf("create at %s: %d %s", path, code, text)
	}
	if result != nil {
		if err := json.Unmarshal(text, result); err != nil {
			c.t.Fatal(err)
		}
	}
}

// paths lists the collections that the manifests fill.
var paths = map[string]string{
	"ServiceAccount": "/api/v1/namespaces/" + namespace + "/serviceaccounts",
	"Role":           "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/roles",
	"RoleBinding":    "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings",
	"Deployment":     "/apis/apps/v1/namespaces/" + namespace + "/deployments",
}

var kindLine = regexp.MustCompile(`(?m)^kind: (\w+)$`)

// deployment is the part of a Deployment that the tests read.
type deployment struct {
	Spec struct {
		Template struct {
			Spec json.RawMessage
		}
	}
}

// pod is the part of a pod's spec that the tests read.
type pod struct {
	InitContainers, Containers []struct {
		Command []string
		Env     []struct{ Name, Value string }
	}
}

// apply creates every object of a manifest and returns the last Deployment.
func (c *caller) apply(file string) deployment {
	c.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		c.t.Fatal(err)
	}
	var last deployment
	for _, document := range strings.Split(string(text), "\n---\n") {
		kind := kindLine.FindStringSubmatch(document)
		if kind == nil || paths[kind[1]] == "" {
			c.t.Fatalf("%s holds a document of an unknown kind:\n%s", file, document)
		}
		c.create(paths[kind[1]], "application/yaml", document, &last)
	}
	return last
}

// startBilling returns an API server with the namespace and its access rules,
// and a kubeconfig with the rights of the service account.
func startBilling(t *testing.T) (admin *caller, kubeconfig string) {
	s := stores.Start(t, "kubernetes")
	admin = newCaller(t, s)
	admin.create("/api/v1/namespaces", "application/json", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+namespace+
		`","labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`, nil)
	admin.apply("kubernetes/rbac.yaml")
	var request struct{ Status struct{ Token string } }
	admin.create(paths["ServiceAccount"]+"/billing/token", "application/json",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`, &request)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: %s}}]
current-context: x
`, admin.base, s.Note["certificate"], request.Status.Token, namespace), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := *admin
	pod.token = request.Status.Token
	checkRights(t, &pod)
	return admin, kubeconfig
}

// checkRights checks that the service account can only use Leases in its own
// namespace.
func checkRights(t *testing.T, pod *caller) {
	t.Helper()
	leases := "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, leases, http.StatusOK},
		{http.MethodDelete, leases + "/billing", http.StatusForbidden},
		{http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/default/leases", http.StatusForbidden},
		{http.MethodGet, "/api/v1/namespaces/" + namespace + "/secrets", http.StatusForbidden},
	} {
		if code, text := pod.call(test.method, test.path, "application/json", ""); code != test.want {
			t.Errorf("%s %s as the service account: %d, want %d: %s", test.method, test.path, code, test.want, text)
		}
	}
}

// template returns what the pods of a manifest run. A namespace with the
// strictest rules must accept such a pod.
func template(t *testing.T, admin *caller, file string) pod {
	t.Helper()
	spec := admin.apply(file).Spec.Template.Spec
	code, text := admin.call(http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods?dryRun=All&fieldValidation=Strict",
		"application/json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":`+string(spec)+`}`)
	if code != http.StatusCreated {
		t.Fatalf("the pod of %s is refused: %d %s", file, code, text)
	}
	var p pod
	if err := json.Unmarshal(spec, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// container runs the command of a container as a process on this machine.
type container struct {
	t       testing.TB
	command *exec.Cmd
	stderr  bytes.Buffer
	done    chan struct{}
}

// startContainer replaces paths in the image with paths on this machine.
func startContainer(t testing.TB, kubeconfig, name string, command []string, env map[string]string, paths ...string) *container {
	t.Helper()
	binary, err := servers.WithStores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if command[0] != "conclave" {
		t.Fatalf("the container runs %q, not conclave", command)
	}
	replacer := strings.NewReplacer(append(paths, "$(POD_NAME)", name)...)
	var args []string
	for _, arg := range command[1:] {
		args = append(args, replacer.Replace(arg))
	}
	c := &container{t: t, command: exec.Command(binary, args...), done: make(chan struct{})}
	c.command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "POD_NAME="+name)
	for key, value := range env {
		c.command.Env = append(c.command.Env, key+"="+value)
	}
	c.command.Stderr = &c.stderr
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	childtest.Start(t, c.command)
	go func() {
		_ = c.command.Wait()
		close(c.done)
	}()
	t.Cleanup(func() {
		c.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("%s:\n%s", name, c.stderr.String())
		}
	})
	return c
}

// end signals the container's first process and waits for its end.
func (c *container) end(sig syscall.Signal) {
	c.t.Helper()
	_ = c.command.Process.Signal(sig) // it may have ended
	select {
	case <-c.done:
	case <-time.After(limit):
		c.t.Fatalf("the container did not end within %v of %v", limit, sig)
	}
}

// killAll kills all processes of the container at once, as the end of a
// container does.
func (c *container) killAll() {
	c.t.Helper()
	for _, pid := range append(descendants(c.command.Process.Pid), c.command.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	<-c.done
}

// environment returns the variables of a container that have plain values.
func environment(env []struct{ Name, Value string }) map[string]string {
	all := map[string]string{}
	for _, e := range env {
		if e.Value != "" {
			all[e.Name] = e.Value
		}
	}
	return all
}

func TestDeploymentRunsTheWorkerInOnePod(t *testing.T) {
	admin, kubeconfig := startBilling(t)
	main := template(t, admin, "kubernetes/deployment.yaml").Containers[0]
	log := filepath.Join(t.TempDir(), "log")
	worker := writeWorker(t, log)
	start := func(name string) *container {
		return startContainer(t, kubeconfig, name, main.Command, environment(main.Env), "/app/worker", worker)
	}
	first := start("billing-1")
	await(t, "billing-1 leads", func() bool { return has(log, "begin billing-1 ") })
	start("billing-2")
	first.end(syscall.SIGTERM) // as when the pod is deleted
	await(t, "billing-2 leads", func() bool { return has(log, "begin billing-2 ") })
	checkTurns(t, log, "billing-1", "billing-2")

	code, text := admin.call(http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/"+namespace+"/leases/billing", "", "")
	var lease struct {
		Spec struct {
			HolderIdentity       string
			LeaseDurationSeconds int
		}
	}
	if err := json.Unmarshal(text, &lease); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s %v", code, text, err)
	}
	if !strings.HasPrefix(lease.Spec.HolderIdentity, "billing-2_") || lease.Spec.LeaseDurationSeconds != 10 {
		t.Errorf("the Lease says %+v", lease.Spec)
	}
}

func TestSidecarTellsOnePodThatItLeads(t *testing.T) {
	admin, kubeconfig := startBilling(t)
	p := template(t, admin, "kubernetes/sidecar.yaml")
	sidecar := p.InitContainers[0]
	start := func(name string) (*container, string) {
		dir := t.TempDir() // the volume
		c := startContainer(t, kubeconfig, name, sidecar.Command, environment(sidecar.Env), "/lead/", dir+"/")
		return c, filepath.Join(dir, "token")
	}
	leads := func(token string) func() bool {
		return func() bool {
			info, err := os.Stat(token)
			return err == nil && time.Since(info.ModTime()) < 5*time.Second // the worker's own check
		}
	}
	first, firstToken := start("billing-1")
	await(t, "billing-1 leads", leads(firstToken))
	second, secondToken := start("billing-2")
	first.end(syscall.SIGTERM)
	if leads(firstToken)() {
		t.Error("the token is there when the sidecar has ended")
	}
	await(t, "billing-2 leads", leads(secondToken))
	third, thirdToken := start("billing-3")
	// The second container dies with all its processes. Nobody is left to
	// remove the file, so the worker has to notice its age.
	before, err := os.ReadFile(secondToken)
	if err != nil {
		t.Fatal(err)
	}
	second.killAll()
	await(t, "billing-3 leads", leads(thirdToken))
	if leads(secondToken)() {
		t.Error("two pods consider themselves leaders")
	}
	after, err := os.ReadFile(thirdToken)
	if err != nil || len(after) < len(before) || len(after) == len(before) && string(after) <= string(before) {
		t.Errorf("token %s after %s (%v)", after, before, err)
	}
	third.end(syscall.SIGTERM)
}
