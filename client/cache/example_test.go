package cache_test

import (
	"context"
	"fmt"
	"log"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/cache"
)

// A program keeps its configuration equal to the one in the tree.
func ExampleCache_Changes() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	config, err := cache.New(ctx, c, "/config", cache.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer config.Close()
	changes := config.Changes() // begins with all that is there
	for {
		change, err := changes.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if change.Exists {
			fmt.Printf("%s = %s\n", change.Path, change.Znode.Data)
		} else {
			fmt.Printf("%s is gone\n", change.Path)
		}
	}
}
