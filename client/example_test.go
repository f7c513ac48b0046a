package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, "127.0.0.1:2181", client.Options{SessionTimeout: 6 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	path, _, err := c.Create(ctx, "/job-", []byte("payload"), client.CreateOptions{Mode: zk.EphemeralSequential})
	switch {
	case err == nil:
		fmt.Println("created", path)
	case client.OutcomeOf(err) == client.Unknown:
		fmt.Println("may have been created:", err)
	case errors.Is(err, zk.ErrNoAuth):
		fmt.Println("not allowed")
	}
}

func ExampleClient_Watch() {
	ctx := context.Background()
	c, err := client.Dial(ctx, "127.0.0.1:2181", client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	w, err := c.Watch(ctx, "/config", zk.WatchPersistentRecursive)
	if err != nil {
		log.Fatal(err)
	}
	for event := range w.Events() {
		if event.Type == zk.EventNone {
			fmt.Println("events may be missing: read everything again")
			continue
		}
		fmt.Println(event.Type, event.Path)
	}
	fmt.Println("the watch has ended:", w.Err())
}
