//go:build linux

package stores

import (
	"context"
	"path/filepath"
	"strings"
)

const etcdVersion = "3.7.3"

func registerEtcd(register func(recipe)) {
	register(recipe{name: "etcd", version: etcdVersion, build: buildEtcd, start: startEtcd})
	register(recipe{name: "etcd-cluster", version: etcdVersion, build: buildEtcd, start: startEtcdCluster})
}

func buildEtcd(ctx context.Context, cache string) error {
	if err := goBuild(ctx, "etcd", "go.etcd.io/etcd/server/v3", cache, "etcd"); err != nil {
		return err
	}
	return goBuild(ctx, "etcd", "go.etcd.io/etcd/etcdctl/v3", cache, "etcdctl")
}

// startEtcd runs one server with the default heartbeat and election timeout, so its
// shortest lease is 2 s. Note["etcdctl"] is the path of etcdctl.
func startEtcd(ctx context.Context, cache, dir string) (*Server, error) {
	return startEtcds(ctx, cache, dir, "etcd")
}

// startEtcdCluster runs three servers, e1 to e3; Addr is the first one's, Note["addrs"] has
// all of them in order.
func startEtcdCluster(ctx context.Context, cache, dir string) (*Server, error) {
	return startEtcds(ctx, cache, dir, "e1", "e2", "e3")
}

func startEtcds(ctx context.Context, cache, dir string, names ...string) (*Server, error) {
	addrs, err := freeAddrs(2 * len(names))
	if err != nil {
		return nil, err
	}
	clients, peers := addrs[:len(names)], addrs[len(names):]
	var cluster []string
	for i, name := range names {
		cluster = append(cluster, name+"=http://"+peers[i])
	}
	s := &Server{URL: "etcd://" + strings.Join(clients, ","), Addr: clients[0], Note: map[string]string{
		"etcdctl": filepath.Join(cache, "etcdctl"), "addrs": strings.Join(clients, ",")}}
	for i, name := range names {
		p := etcdServer(cache, dir, name, clients[i], peers[i], strings.Join(cluster, ","))
		if i < len(names)/2 {
			p.answers = listensOn(peers[i]) // there is no leader before a majority runs
		}
		if err := s.add(ctx, p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func etcdServer(cache, dir, name, client, peer, cluster string) *process {
	client, peer = "http://"+client, "http://"+peer
	return &process{name: name, dir: dir, answers: answerOf(client + "/health"), args: []string{
		filepath.Join(cache, "etcd"), "--name", name, "--data-dir", filepath.Join(dir, name+"-data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", cluster, "--log-level", "warn"}}
}
