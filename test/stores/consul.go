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

const consulVersion = "1.22.3"

func registerConsul(register func(recipe)) {
	register(recipe{name: "consul", version: consulVersion, slow: true, build: buildConsul, start: startConsul})
	register(recipe{name: "consul-cluster", version: consulVersion, slow: true, build: buildConsul,
		start: startConsulCluster})
}

func buildConsul(ctx context.Context, cache string) error {
	return goBuild(ctx, "consul", ".", cache, "consul", "-trimpath", "-ldflags=-s -w")
}

// consulConfig runs one server with only HTTP and what Raft and gossip need. Sessions may
// be as short as two seconds, so tests need not wait for ten, and one address may have many
// connections, because all candidates share it.
const consulConfig = `
node_name        = %q
server           = true
bootstrap_expect = %d
retry_join       = [%q]
retry_interval   = "1s"
data_dir         = %q
bind_addr        = %[5]q
client_addr      = %[5]q
advertise_addr   = %[5]q
session_ttl_min  = "2s"
disable_update_check = true
connect { enabled = false }
performance { raft_multiplier = 1 }
limits { http_max_conns_per_client = 2000 }
ports {
  http     = %[6]s
  server   = %[7]s
  serf_lan = %[8]s
  serf_wan = -1
  dns      = -1
  grpc     = -1
  grpc_tls = -1
}
`

// startConsul runs one server. Note["consul"] is the path of the program.
func startConsul(ctx context.Context, cache, dir string) (*Server, error) {
	return startConsuls(ctx, cache, dir, "consul")
}

// startConsulCluster runs three servers, c1 to c3; Addr is the first one's, Note["addrs"]
// has all of them in order.
func startConsulCluster(ctx context.Context, cache, dir string) (*Server, error) {
	return startConsuls(ctx, cache, dir, "c1", "c2", "c3")
}

func startConsuls(ctx context.Context, cache, dir string, names ...string) (*Server, error) {
	count := len(names)
	addrs, err := freeAddrs(3 * count)
	if err != nil {
		return nil, err
	}
	clients, servers, gossips := addrs[:count], addrs[count:2*count], addrs[2*count:]
	program := filepath.Join(cache, "consul")
	s := &Server{URL: "consul://" + clients[0] + "?lease-min=2s", Addr: clients[0],
		Note: map[string]string{"consul": program, "addrs": strings.Join(clients, ",")}}
	for i, name := range names {
		host, client, _ := net.SplitHostPort(clients[i])
		_, server, _ := net.SplitHostPort(servers[i])
		_, gossip, _ := net.SplitHostPort(gossips[i])
		config := filepath.Join(dir, name+".hcl")
		text := fmt.Sprintf(consulConfig, name, count, gossips[0], filepath.Join(dir, name), host, client, server, gossip)
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			return nil, err
		}
		p := &process{name: name, dir: dir, answers: consulAnswers(clients[i]),
			args: []string{program, "agent", "-config-file", config, "-log-level", "warn"}}
		if i < count-1 {
			p.answers = listensOn(clients[i]) // at the first start there is no leader before all have joined
		}
		if err := s.add(ctx, p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// consulAnswers returns a check that the server knows a leader and has created the entry of
// its own node, to which sessions are bound.
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
