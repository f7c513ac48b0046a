// Command outside is somebody else's program, in a module of its own: it elects
// itself on a directory, on ZooKeeper's servers and on etcd, and prints the tokens.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/etcd"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/backend/zookeeper"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, servers, url := os.Args[1], os.Args[2], os.Args[3]
	files, err := file.New(dir)
	check(err)
	elect(ctx, "file", files)
	znodes, err := zookeeper.New(servers, zookeeper.Options{})
	check(err)
	elect(ctx, "zookeeper", znodes)
	check(znodes.Close())
	keys, closeKeys, err := etcd.Open(ctx, url)
	check(err)
	elect(ctx, "etcd", keys)
	check(closeKeys())
}

func elect(ctx context.Context, store string, backend election.Backend) {
	elector, err := election.New(backend, "outside", election.Options{Once: true, ID: "outsider"})
	check(err)
	check(elector.Run(ctx, func(_ context.Context, lead election.Leadership) error {
		fmt.Println(store, "elected", lead.ID(), lead.Token() > 0)
		return nil
	}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
