//go:build linux

package stores

import (
	"context"
	"os"
	"path/filepath"
)

func registerS3(register func(recipe)) {
	register(recipe{name: "s3", version: "versitygw-1.8.0", build: buildVersity, start: startVersity})
	register(recipe{name: "minio", version: "2026-02-12", slow: true, build: buildMinIO, start: startMinIO})
}

// The bucket on both servers, and its credentials.
const (
	s3Bucket = "conclave"
	s3Access = "conclave-test"
	s3Secret = "conclave-test-secret"
)

func buildVersity(ctx context.Context, cache string) error {
	return goBuild(ctx, "s3", "github.com/versity/versitygw/cmd/versitygw", cache, "versitygw")
}

// startVersity runs a server whose buckets are directories.
func startVersity(ctx context.Context, cache, dir string) (*Server, error) {
	return startS3(ctx, dir, func(addr, root string) *process {
		return &process{name: "versitygw", args: []string{filepath.Join(cache, "versitygw"), "--port", addr,
			"--access", s3Access, "--secret", s3Secret, "--keep-alive", "--quiet", "posix", root}}
	})
}

func buildMinIO(ctx context.Context, cache string) error {
	return goBuild(ctx, "minio", "github.com/minio/minio", cache, "minio", "-p=1")
}

// startMinIO runs a server with one drive. It also listens on ::1, which cannot be switched
// off.
func startMinIO(ctx context.Context, cache, dir string) (*Server, error) {
	return startS3(ctx, dir, func(addr, root string) *process {
		return &process{name: "minio",
			args: []string{filepath.Join(cache, "minio"), "server", "--quiet", "--address", addr, root},
			environment: []string{"MINIO_ROOT_USER=" + s3Access, "MINIO_ROOT_PASSWORD=" + s3Secret,
				"MINIO_UPDATE=off", "MINIO_BROWSER=off", "MINIO_CALLHOME_ENABLE=off"}}
	})
}

// startS3 runs a server with an empty bucket. Note contains the credentials.
func startS3(ctx context.Context, dir string, server func(addr, root string) *process) (*Server, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(root, s3Bucket), 0o755); err != nil {
		return nil, err
	}
	endpoint := "http://" + addrs[0]
	s := &Server{
		URL:  "s3://" + s3Bucket + "?region=us-east-1&path-style=true&endpoint=" + endpoint,
		Addr: addrs[0],
		Note: map[string]string{"access": s3Access, "secret": s3Secret},
	}
	p := server(addrs[0], root)
	p.dir, p.answers = dir, speaksHTTP(endpoint)
	return s, s.add(ctx, p)
}
