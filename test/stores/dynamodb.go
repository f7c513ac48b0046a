//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"
)

func registerDynamoDB(register func(recipe)) {
	register(recipe{name: "dynamodb", version: "2.6.1", build: buildDynamoDB, start: startDynamoDB})
}

// buildDynamoDB installs DynamoDB Local, AWS's own emulator, and a launcher that makes it
// listen only on loopback. It needs Maven and a JDK 17.
func buildDynamoDB(ctx context.Context, cache string) error {
	module, err := recipe{name: "dynamodb"}.moduleDir()
	if err != nil {
		return err
	}
	lib := filepath.Join(cache, "lib")
	err = run(ctx, cache, nil, "mvn", "-q", "-B", "-f", filepath.Join(module, "pom.xml"),
		"dependency:copy-dependencies", "-DoutputDirectory="+lib)
	if err != nil {
		return err
	}
	return run(ctx, cache, nil, "javac", "-cp", filepath.Join(lib, "*"),
		"-d", filepath.Join(cache, "classes"), filepath.Join(module, "Loopback.java"))
}

// startDynamoDB runs it with its tables in a file. It accepts any credentials.
func startDynamoDB(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	lib := filepath.Join(cache, "lib")
	s := &Server{
		URL:  "dynamodb://conclave-elections?region=eu-central-1&create=true&endpoint=http://" + addrs[0],
		Addr: addrs[0],
	}
	return s, s.add(ctx, &process{
		name: "dynamodb", dir: dir,
		args: []string{"java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Djava.library.path=" + lib,
			"-cp", filepath.Join(cache, "classes") + ":" + filepath.Join(lib, "*"), "Loopback",
			"-port", port, "-dbPath", dir, "-sharedDb", "-disableTelemetry"},
		environment: []string{"DDB_LOCAL_TELEMETRY=0"},
		answers:     speaksHTTP("http://" + addrs[0]),
	})
}

// speaksHTTP returns a check that a URL answers with any status but 503, by which MinIO
// says that it is not ready.
func speaksHTTP(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return fmt.Errorf("GET %s: %w", url, err)
		}
		if response.StatusCode == http.StatusServiceUnavailable {
			err = fmt.Errorf("GET %s: %s", url, response.Status)
		}
		return errors.Join(err, response.Body.Close())
	}
}
