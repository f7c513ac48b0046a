//go:build linux

package stores

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func registerConsul(register func(recipe)) {
	register(recipe{name: "consul", version: "1.22.3", slow: true, build: buildConsul, start: startConsul})
}

func buildConsul(ctx context.Context, cache string) error {
	return goBuild(ctx, "consul", ".", cache, "consul", "-trimpath", "-ldflags=-s -w")
}

// consulConfig is one server with nothing on but HTTP and what Raft and gossip
// need. Sessions may be as short as two seconds, so that tests need not wait
// for ten, and one address may have many connections: all candidates have it.
const consulConfig = `
server           = true
bootstrap_expect = 1
data_dir         = %q
bind_addr        = %q
client_addr      = %q
advertise_addr   = %q
session_ttl_min  = "2s"
disable_update_check = true
connect { enabled = false }
performance { raft_multiplier = 1 }
limits { http_max_conns_per_client = 2000 }
ports {
  http     = %s
  server   = %s
  serf_lan = %s
  serf_wan = -1
  dns      = -1
  grpc     = -1
  grpc_tls = -1
}
`

// startConsul runs one server. Note["consul"] is the path of the program.
func startConsul(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(3)
	if err != nil {
		return nil, err
	}
	var ports [3]string
	host := ""
	for i, addr := range addrs {
		host, ports[i], _ = net.SplitHostPort(addr)
	}
	config := filepath.Join(dir, "consul.hcl")
	text := fmt.Sprintf(consulConfig, filepath.Join(dir, "data"), host, host, host, ports[0], ports[1], ports[2])
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	program := filepath.Join(cache, "consul")
	s := &Server{URL: "consul://" + addrs[0] + "?lease-min=2s", Addr: addrs[0], Note: map[string]string{"consul": program}}
	return s, s.add(ctx, &process{name: "consul", dir: dir, answers: consulAnswers(addrs[0]),
		args: []string{program, "agent", "-config-file", config, "-log-level", "warn"}})
}

// consulAnswers returns a check that the server knows a leader and has made the
// entry of its own node, which sessions are bound to.
func consulAnswers(addr string) func(context.Context) error {
	health := "http://" + addr + "/v1/health/state/passing?consistent"
	return func(ctx context.Context) error {
		body, err := get(ctx, health)
		if err == nil && !strings.Contains(body, "serfHealth") {
			return fmt.Errorf("the node is not registered: %s", body)
		}
		return err
	}
}

func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}
