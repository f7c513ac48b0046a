//go:build conformance && linux

package main

import (
	"cmp"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/command"
	"github.com/conclave-project/conclave/cmd/conclave/internal/scripts"
	"github.com/conclave-project/conclave/test/stores"
)

// TestElectionScriptsOnRealStores runs the sessions of testdata/election on a real server
// for every backend that the command knows, and on Conclave itself. They call conclave,
// which executes conclave-stores if it needs an SDK.
func TestElectionScriptsOnRealStores(t *testing.T) {
	for _, name := range append([]string{"conclave", "zookeeper"}, command.WithSDK()...) {
		t.Run(name, func(t *testing.T) {
			if name == "sqlite" { // needs no server
				scripts.Run(t, "../internal/command/testdata/election", "sqlite://"+t.TempDir()+"/elections.db")
				return
			}
			server := stores.Start(t, cmp.Or(map[string]string{"mysql": "mariadb", "gs": "gcs"}[name], name))
			scripts.Run(t, "../internal/command/testdata/election", server.URL, environments(server)[name]...)
		})
	}
}

// environments returns the credentials that the servers of package stores accept, and
// longer leases for stores that do not support short ones.
func environments(server *stores.Server) map[string][]string {
	return map[string][]string{
		"azureblob": {"AZURE_STORAGE_KEY=" + server.Note["key"], "LEASE=15s", "LONG=25s"},
		"dynamodb": {"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true",
			"LEASE=10s", "LONG=14s"}, // runs in a JVM, on a busy machine
		"gs": {"LEASE=10s", "LONG=14s"},
		"s3": {"AWS_ACCESS_KEY_ID=conclave-test", "AWS_SECRET_ACCESS_KEY=conclave-test-secret", "AWS_EC2_METADATA_DISABLED=true"},
	}
}
