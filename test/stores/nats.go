//go:build linux

package stores

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const natsVersion = "2.15.2"

// natsServers is the number of servers in the recipe "nats-cluster".
const natsServers = 3

func registerNATS(register func(recipe)) {
	register(recipe{name: "nats", version: natsVersion, build: buildNATS, start: startNATS})
	register(recipe{name: "nats-cluster", version: natsVersion, build: buildNATS, start: startNATSCluster})
}

func buildNATS(ctx context.Context, cache string) error {
	return goBuild(ctx, "nats", "github.com/nats-io/nats-server/v2", cache, "nats-server")
}

// startNATS runs one server with JetStream.
func startNATS(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "nats://" + addrs[0], Addr: addrs[0]}
	return s, s.add(ctx, natsServer(cache, dir, "n1", addrs[0], addrs[1]))
}

// startNATSCluster runs three servers; Addr is the first one's. The cluster counts as
// started when each server knows the leader of JetStream.
func startNATSCluster(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(3 * natsServers)
	if err != nil {
		return nil, err
	}
	clients, monitors, routes := addrs[:natsServers], addrs[natsServers:2*natsServers], addrs[2*natsServers:]
	s := &Server{URL: "nats://" + strings.Join(clients, ","), Addr: clients[0]}
	for i := range natsServers {
		p := natsServer(cache, dir, "n"+strconv.Itoa(i+1), clients[i], monitors[i], "--cluster_name", "test",
			"--cluster", "nats://"+routes[i], "--no_advertise", "--routes", "nats://"+strings.Join(routes, ",nats://"))
		if i < natsServers-1 {
			p.answers = listensOn(clients[i]) // there is no leader before a majority runs
		}
		if err := s.add(ctx, p); err != nil {
			return nil, err
		}
	}
	for i := range natsServers {
		if err := awaitNATSLeader(ctx, monitors[i]); err != nil {
			s.Stop()
			return nil, err
		}
	}
	return s, nil
}

func natsServer(cache, dir, name, client, monitor string, more ...string) *process {
	host, port, _ := net.SplitHostPort(client)
	_, monitorPort, _ := net.SplitHostPort(monitor)
	args := append([]string{filepath.Join(cache, "nats-server"), "--name", name, "--addr", host, "--port", port,
		"--http_port", monitorPort, "--jetstream", "--store_dir", filepath.Join(dir, name)}, more...)
	return &process{name: name, dir: dir, args: args, answers: answerOf("http://" + monitor + "/healthz")}
}

// awaitNATSLeader waits until the server knows the leader of JetStream.
func awaitNATSLeader(ctx context.Context, monitor string) error {
	for {
		leader, err := natsLeader(ctx, monitor)
		if leader != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("JetStream has no leader: %v: %w", err, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func natsLeader(ctx context.Context, monitor string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+monitor+"/jsz", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var answer struct {
		Meta struct {
			Leader string `json:"leader"`
		} `json:"meta_cluster"`
	}
	return answer.Meta.Leader, json.NewDecoder(response.Body).Decode(&answer)
}
