//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/test/stores"
)

// A proof is the suite of one backend on the stores it is for.
type proof struct {
	// name is that of the backend.
	name string
	// stores are those that its tests start, beside those whose name is that
	// of the backend with an addition, such as "etcd-cluster"; none for a
	// backend without one.
	stores []string
	// dir is where the tests are, from the top of the tree; several, with spaces
	// between them, where modules part them.
	dir string
	// lost is how long the experiment with pauses takes in seconds: enough for
	// some pauses with the store's shortest lease. Zero is a proof of no backend:
	// it has tests of its own, and leaves no report.
	lost int
}

// proofs lists the backends, as the page does, and after them the fences, the
// examples that are deployed, and the command line.
var proofs = []proof{
	{"zookeeper", []string{"conclave", "zookeeper"}, "test/conformance", 45},
	{"etcd", []string{"etcd"}, "election/backend/etcd", 45},
	{"consul", []string{"consul", "consul-cluster"}, "election/backend/consul", 45},
	{"kubernetes", []string{"kubernetes"}, "election/backend/kubernetes", 45},
	{"postgres", []string{"postgres"}, "election/backend/postgres", 45},
	{"mysql", []string{"mariadb"}, "election/backend/mysql", 45},
	{"sqlite", nil, "election/backend/sqlite", 45},
	{"redis", []string{"redis"}, "election/backend/redis", 45},
	{"nats", []string{"nats"}, "election/backend/nats", 45},
	{"dynamodb", []string{"dynamodb"}, "election/backend/dynamodb", 45},
	{"s3", []string{"s3", "minio"}, "election/backend/s3", 45},
	{"gcs", []string{"gcs"}, "election/backend/gcs", 120},
	{"azureblob", []string{"azureblob"}, "election/backend/azureblob", 180},
	{"file", nil, "election/backend/file", 45},
	{"peers", nil, "election/backend/peers", 45},
	{"fence", []string{"zookeeper", "postgres", "mariadb", "s3", "minio", "azureblob"}, "election/fence election/fence/integration", 0},
	{"deploy", []string{"kubernetes"}, "examples/deploy", 0},
	{"commands", []string{"conclave", "zookeeper", "etcd", "consul", "kubernetes", "dynamodb", "azureblob", "s3", "gcs",
		"postgres", "mariadb", "redis", "nats"}, "cmd/conclave/conclave-stores", 0},
}

// needs returns the names of all stores that the proof's tests start.
func (p proof) needs() []string {
	needs := slices.Clone(p.stores)
	for _, name := range stores.Names() {
		if strings.HasPrefix(name, p.name+"-") {
			needs = append(needs, name)
		}
	}
	return needs
}

// slow reports whether all stores of the proof take long to build.
func (p proof) slow() bool {
	return len(p.stores) > 0 && !slices.ContainsFunc(p.stores, func(name string) bool { return !stores.Slow(name) })
}

// pattern is which tests belong to the proof.
func (p proof) pattern() string {
	if strings.HasPrefix(p.dir, "test/") {
		return "(?i)" + p.name + ".*Suite"
	}
	return "."
}

// slowStores are those that -quick leaves out.
func slowStores() []string {
	return slices.DeleteFunc(stores.Names(), func(name string) bool { return !stores.Slow(name) })
}

// choose returns the proofs that are asked for.
func choose(only, without string, quick bool) ([]proof, error) {
	wanted, left := names(only), names(without)
	for _, name := range slices.Concat(wanted, left) {
		if !slices.ContainsFunc(proofs, func(p proof) bool { return p.name == name || slices.Contains(p.needs(), name) }) {
			return nil, fmt.Errorf("no backend or store is called %q", name)
		}
	}
	var chosen []proof
	for _, p := range proofs {
		switch {
		case len(wanted) > 0 && !slices.Contains(wanted, p.name):
		case quick && p.slow():
		case slices.Contains(left, p.name):
		default:
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}

// names splits a list at its commas.
func names(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
}
