//go:build linux

package stores

import (
	"context"
	"encoding/base64"
	"net"
	"path/filepath"
)

func registerAzureBlob(register func(recipe)) {
	register(recipe{name: "azureblob", version: "azurite-3.37.0", build: buildAzurite, start: startAzurite})
}

func buildAzurite(ctx context.Context, cache string) error {
	return npmInstall(ctx, cache, "azurite@3.37.0")
}

// startAzurite runs Microsoft's emulator of the blob service. Note contains the account and
// its key. The emulator writes to disk only every few seconds: after Crash the latest
// writes are lost, which would not happen with the real service.
func startAzurite(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addrs[0])
	const account = "conclavetest"
	key := base64.StdEncoding.EncodeToString([]byte("a key for tests on loopback"))
	endpoint := "http://" + addrs[0] + "/" + account
	s := &Server{
		URL:  "azureblob://" + account + "/elections?create=true&endpoint=" + endpoint,
		Addr: addrs[0],
		Note: map[string]string{"account": account, "key": key},
	}
	return s, s.add(ctx, &process{
		name: "azurite", dir: dir,
		args: []string{"node", filepath.Join(cache, "node_modules", "azurite", "dist", "src", "blob", "main.js"),
			"--blobHost", host, "--blobPort", port, "--location", dir, "--silent", "--disableTelemetry"},
		environment: []string{"AZURITE_ACCOUNTS=" + account + ":" + key},
		answers:     speaksHTTP(endpoint),
	})
}
