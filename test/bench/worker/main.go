// Command worker is a process that bench starts and measures. It needs the client libraries
// of several stores, so it is a separate module.
//
//	worker campaign -way WAY -url URL [-elections N] [-candidates N] [-clients N] [-lease D]
//	worker load -url URL -work WORK [-connections N] [-in-flight N] [-for D]
//
// campaign runs candidates of elections, with Conclave's SDK or the store's own library.
// load runs the same work on etcd and on servers with ZooKeeper's protocol.
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
