//go:build packages

package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/stores"
)

const namespace = "conclave"

// collections lists where the objects of the manifests are created.
var collections = map[string]string{
	"ConfigMap":           "/api/v1/namespaces/" + namespace + "/configmaps",
	"Service":             "/api/v1/namespaces/" + namespace + "/services",
	"StatefulSet":         "/apis/apps/v1/namespaces/" + namespace + "/statefulsets",
	"PodDisruptionBudget": "/apis/policy/v1/namespaces/" + namespace + "/poddisruptionbudgets",
	"NetworkPolicy":       "/apis/networking.k8s.io/v1/namespaces/" + namespace + "/networkpolicies",
}

// apiServer is a real API server, and its administrator.
type apiServer struct {
	kubeconfig string

	t      testing.TB
	base   string
	token  string
	client *http.Client
}

func startAPIServer(t testing.TB) *apiServer {
	s := stores.Start(t, "kubernetes")
	text, err := os.ReadFile(s.Note["certificate"])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &apiServer{s.Note["kubeconfig"], t, "https://" + s.Addr, s.Note["token"], &http.Client{Transport: transport, Timeout: time.Minute}}
}

// create posts an object, whose fields the server must all know, and returns what the server has
// made of it.
func (a *apiServer) create(path, kind, body string) []byte {
	a.t.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.base+path+separator+"fieldValidation=Strict", strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	request.Header.Set("Content-Type", kind)
	response, err := a.client.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated {
		a.t.Fatalf("create at %s: %d %s %v\n%s", path, response.StatusCode, text, err, body)
	}
	return text
}

var kindLine = regexp.MustCompile(`(?m)^kind: (\w+)$`)

// apply creates all objects, after a trial run, and returns the StatefulSet.
func (a *apiServer) apply(manifests string) (set struct {
	Spec struct {
		ServiceName string
		Template    struct{ Spec json.RawMessage }
	}
}) {
	a.t.Helper()
	for _, query := range []string{"?dryRun=All", ""} {
		for _, document := range strings.Split(manifests, "---\n") {
			kind := kindLine.FindStringSubmatch(document)
			if kind == nil {
				continue
			}
			if collections[kind[1]] == "" {
				a.t.Fatalf("a document of an unknown kind:\n%s", document)
			}
			text := a.create(collections[kind[1]]+query, "application/yaml", document)
			if kind[1] == "StatefulSet" {
				if err := json.Unmarshal(text, &set); err != nil {
					a.t.Fatal(err)
				}
			}
		}
	}
	return set
}

// TestAPIServerTakesTheManifests covers the manifests of the tree, those with everything optional,
// and a pod made from them, in a namespace with the strictest rules.
func TestAPIServerTakesTheManifests(t *testing.T) {
	for name, manifests := range map[string]string{"plain": read(t, "kubernetes/conclave.yaml"), "everything": template(t, everything...)} {
		t.Run(name, func(t *testing.T) {
			a := startAPIServer(t)
			a.create("/api/v1/namespaces", "application/json", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s",`+
				`"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`, namespace))
			set := a.apply(manifests)
			if set.Spec.ServiceName != "conclave-servers" {
				t.Errorf("the pods' names are those of %q", set.Spec.ServiceName)
			}
			// The controller adds the volume for each pod's claim.
			spec := strings.Replace(string(set.Spec.Template.Spec), `"volumes":[`, `"volumes":[{"name":"data","emptyDir":{}},`, 1)
			a.create("/api/v1/namespaces/"+namespace+"/pods?dryRun=All", "application/json",
				`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"conclave-0"},"spec":`+spec+`}`)
		})
	}
}

// TestHelmInstallsTheChart also upgrades it by one server, and checks that two at once are refused.
func TestHelmInstallsTheChart(t *testing.T) {
	a := startAPIServer(t)
	on := func(args ...string) []string {
		return append(args, "conclave", "chart/conclave", "--namespace", namespace, "--kubeconfig", a.kubeconfig)
	}
	if out := helm(t, append(on("install"), "--create-namespace")...); !strings.Contains(out, "conclave."+namespace+".svc.cluster.local:2181") {
		t.Errorf("the notes do not name the port for clients:\n%s", out)
	}
	helm(t, append(on("upgrade"), "--set", "replicas=4")...)
	for _, replicas := range []string{"6", "2"} {
		out, err := tryHelm(t, append(on("upgrade"), "--set", "replicas="+replicas)...)
		if err == nil || !strings.Contains(out, "replicas goes from 4 to "+replicas+": change it by one") {
			t.Errorf("4 servers became %s at once: %v\n%s", replicas, err, out)
		}
	}
	helm(t, append(on("upgrade"), "--set", "replicas=5")...)
}
