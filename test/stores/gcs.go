//go:build linux

package stores

import (
	"context"
	"net"
	"os"
	"path/filepath"
)

func registerGCS(register func(recipe)) {
	register(recipe{name: "gcs", version: "fake-gcs-server-1.56.1", build: buildFakeGCS, start: startFakeGCS})
}

func buildFakeGCS(ctx context.Context, cache string) error {
	return goBuild(ctx, "gcs", "github.com/fsouza/fake-gcs-server", cache, "fake-gcs-server")
}

// startFakeGCS runs an emulator of Google Cloud Storage with an empty bucket. It stores
// objects in memory and loses them in a Crash, unlike the real service: on disk it would
// write an object's content and its generation one after the other, and a kill in between
// would lose the object.
func startFakeGCS(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addrs[0])
	const bucket = "conclave"
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(data, bucket), 0o755); err != nil {
		return nil, err
	}
	endpoint := "http://" + addrs[0]
	s := &Server{URL: "gs://" + bucket + "?anonymous=true&endpoint=" + endpoint, Addr: addrs[0]}
	return s, s.add(ctx, &process{
		name: "fake-gcs-server", dir: dir,
		args: []string{filepath.Join(cache, "fake-gcs-server"), "-scheme", "http", "-host", host, "-port", port,
			"-backend", "memory", "-data", data, "-log-level", "error"},
		answers: answerOf(endpoint + "/_internal/healthcheck"),
	})
}
