//go:build conformance

package kubernetes

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(candidateEnv); order != "" {
		os.Exit(runCandidate(order))
	}
	os.Exit(electiontest.Main(m, func(url string) (election.Backend, error) {
		backend, _, err := Open(context.Background(), url)
		return backend, err
	}))
}

// cluster is a real API server. Each test has a namespace of its own.
type cluster struct {
	server *stores.Server
	last   atomic.Int64 // the number of the last namespace
}

func startCluster(t testing.TB) *cluster { return &cluster{server: stores.Start(t, "kubernetes")} }

// namespace makes a namespace and returns its URL.
func (c *cluster) namespace(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test-%d", c.last.Add(1))
	config, _, err := parse(c.url("default"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Post(config.Host+"/api/v1/namespaces", "application/json",
		strings.NewReader(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`))
	if err != nil || response.StatusCode != 201 {
		t.Fatal(response, err)
	}
	response.Body.Close()
	return c.url(name)
}

func (c *cluster) url(namespace string) string {
	return "kubernetes://" + namespace + "?kubeconfig=" + url.QueryEscape(c.server.Note["kubeconfig"])
}

func openURL(t testing.TB, address string) election.Backend {
	t.Helper()
	backend, end, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end() })
	return backend
}

// operator is a store that none of the candidates uses.
func operator(t testing.TB, address string) *store {
	t.Helper()
	config, options, err := parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newStore(config, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s
}

func TestKubernetesBackendPassesTheSuite(t *testing.T) {
	c := startCluster(t)
	electiontest.Run(t, electiontest.Suite{
		// Long enough for a hundred candidates, on cores that also do other work.
		Lease: 3 * time.Second,
		Open:  openURL, URL: c.namespace, Store: "Kubernetes API server " + c.server.Version,
		Proxy: func(t testing.TB, address string) (string, electiontest.Link) {
			link, err := c.server.Link()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(link.Close)
			return address + "&server=" + url.QueryEscape("https://"+link.Addr), link
		},
		Delete: func(t testing.TB, address, name string) {
			s := operator(t, address)
			if err := s.client.Delete().Namespace(s.namespace).Resource(resource).Name(object(name)).Do(t.Context()).Error(); err != nil {
				t.Fatal(err)
			}
		},
		Left: func(t testing.TB, address string) int { return left(t, operator(t, address)) },
		Restart: func(t testing.TB, _ string) {
			if err := c.server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// left counts the candidates in the Leases of a namespace.
func left(t testing.TB, s *store) int {
	t.Helper()
	list, err := s.page(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for i := range list.Items {
		r := recordOf(&list.Items[i])
		if r.Nonce != "" {
			count++
		}
		if r.Next != nil {
			count++
		}
	}
	return count
}

func TestWatchesOfManyElectionsShareAConnection(t *testing.T) {
	config, options, err := parse(startCluster(t).namespace(t))
	if err != nil {
		t.Fatal(err)
	}
	options.NoEvents = true // the first event and the first watch may both dial
	var dialled atomic.Int64
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	s, err := newStore(config, options)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for i := range 50 {
		name := fmt.Sprintf("election-%d", i)
		version := write(t, s, name, held(1), "")
		ended := await(t, s, name, version)
		write(t, s, name, held(2), version)
		returned(t, ended)
	}
	if got := dialled.Load(); got != 2 {
		t.Errorf("%d connections for the requests and watches of 50 elections, want 2", got)
	}
}

func TestAPIServerTakesEvents(t *testing.T) {
	s := operator(t, startCluster(t).namespace(t))
	write(t, s, "demo", held(1), "")
	awaittest.Until(t, "the event is there", func() bool {
		text, err := s.client.Get().AbsPath("/api/v1/namespaces", s.namespace, "events").
			Param("fieldSelector", "involvedObject.kind=Lease,involvedObject.name=demo").Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "became leader with token 7")
	})
}
