//go:build conformance && linux

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/test/stores"
)

// TestElectionScriptsOnRealStores runs the sessions of testdata/election on a
// real server of every kind that the command knows. CONCLAVE_ONLY names the
// stores to run on, parted by commas; empty is all.
func TestElectionScriptsOnRealStores(t *testing.T) {
	only := strings.FieldsFunc(os.Getenv("CONCLAVE_ONLY"), func(r rune) bool { return r == ',' })
	for _, name := range stores.Names() {
		if len(only) > 0 && !slices.Contains(only, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			server := stores.Start(t, name)
			runScripts(t, "testdata/election", server.URL, environments(server)[name]...)
		})
	}
}

// environments are the credentials that the servers of package stores accept,
// and the leases of stores that know no short ones.
func environments(server *stores.Server) map[string][]string {
	return map[string][]string{
		"azureblob": {"AZURE_STORAGE_KEY=" + server.Note["key"], "LEASE=15s", "LONG=25s"},
		"dynamodb":  {"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true"},
		"s3":        {"AWS_ACCESS_KEY_ID=conclave-test", "AWS_SECRET_ACCESS_KEY=conclave-test-secret", "AWS_EC2_METADATA_DISABLED=true"},
	}
}
