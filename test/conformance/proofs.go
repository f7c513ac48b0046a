//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/test/stores"
)

// A proof is the suite of one backend, with the stores that it needs.
type proof struct {
	// name is the backend's name.
	name string
	// stores are the stores that its tests start, in addition to the ones named like the
	// backend with a suffix, such as "etcd-cluster"; none for a backend without a store.
	stores []string
	// dir is the directory of the tests, relative to the top of the tree; several,
	// separated by spaces, if they are in different modules.
	dir string
	// lost is the duration of the experiment with pauses in seconds: enough for some pauses
	// with the store's shortest lease. Zero means that the proof is not for a backend: it
	// has tests of its own, and leaves no report.
	lost int
}

// proofs lists the backends in the order of the page, then the fences, the deployed
// examples, and the command line.
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

// pattern returns the tests that belong to the proof.
func (p proof) pattern() string {
	if strings.HasPrefix(p.dir, "test/") {
		return "(?i)" + p.name + ".*Suite"
	}
	return "."
}

// slowStores returns the stores that -quick leaves out.
func slowStores() []string {
	return slices.DeleteFunc(stores.Names(), func(name string) bool { return !stores.Slow(name) })
}

// choose returns the proofs that were selected.
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
