//go:build linux

package stores

import (
	"context"
	"path/filepath"
)

func registerEtcd(register func(recipe)) {
	register(recipe{name: "etcd", version: "3.7.3", build: buildEtcd, start: startEtcd})
}

func buildEtcd(ctx context.Context, cache string) error {
	if err := goBuild(ctx, "etcd", "go.etcd.io/etcd/server/v3", cache, "etcd"); err != nil {
		return err
	}
	return goBuild(ctx, "etcd", "go.etcd.io/etcd/etcdctl/v3", cache, "etcdctl")
}

// startEtcd runs one server with the default heartbeat and election timeout:
// its least lease is 2 s. Note["etcdctl"] is the path of the program.
func startEtcd(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	client, peer := "http://"+addrs[0], "http://"+addrs[1]
	s := &Server{URL: "etcd://" + addrs[0], Addr: addrs[0],
		Note: map[string]string{"etcdctl": filepath.Join(cache, "etcdctl")}}
	return s, s.add(ctx, &process{name: "etcd", dir: dir, answers: answerOf(client + "/health"), args: []string{
		filepath.Join(cache, "etcd"), "--name", "e1", "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "e1=" + peer,
		"--log-level", "warn"}})
}
