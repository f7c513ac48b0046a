// Command worker is a process that bench starts and measures, with the libraries of
// several stores: it is a module of its own because of them.
//
//	worker campaign -way WAY -url URL [-elections N] [-candidates N] [-clients N] [-lease D]
//	worker load -url URL -work WORK [-connections N] [-in-flight N] [-for D]
//
// campaign is candidates of elections, by Conclave's SDK or by the store's own library.
// load puts the same work on etcd and on servers of ZooKeeper's protocol.
package main

import (
	"context"
	"fmt"
	"os"
)

func main() {
	commands := map[string]func(context.Context, []string) error{"campaign": campaign, "load": load}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "worker: campaign or load")
		os.Exit(2)
	}
	if err := commands[os.Args[1]](context.Background(), os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}
