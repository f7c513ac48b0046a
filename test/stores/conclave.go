//go:build linux

package stores

import (
	"context"
	"path/filepath"

	"github.com/conclave-project/conclave/test/servers"
)

func registerZooKeepers(register func(recipe)) {
	register(recipe{
		name: "conclave", version: "tree", fresh: true,
		build: func(ctx context.Context, _ string) error { return servers.Conclave().Install(ctx) },
		start: startZooKeeper(servers.Conclave()),
	})
	register(recipe{
		name: "zookeeper", version: servers.Apache39,
		build: func(ctx context.Context, _ string) error { return servers.Apache(servers.Apache39).Install(ctx) },
		start: startZooKeeper(servers.Apache(servers.Apache39)),
	})
}

// startZooKeeper returns a function that starts one server with ZooKeeper's protocol.
func startZooKeeper(kind servers.Kind) func(context.Context, string, string) (*Server, error) {
	return func(ctx context.Context, _, dir string) (*Server, error) {
		s, err := servers.Start(ctx, kind, servers.Options{
			DataDir: filepath.Join(dir, "data"),
			LogFile: filepath.Join(dir, kind.Name()+".log"),
			// The shortest session timeout, two ticks, must be below the suite's lease.
			Config:      []string{"tickTime=200", "maxSessionTimeout=60000"},
			StartWithin: startWithin,
		})
		if err != nil {
			return nil, err
		}
		return &Server{URL: "zookeeper://" + s.Addr, Addr: s.Addr, members: []member{s}}, nil
	}
}
