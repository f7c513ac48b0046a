package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/conclavetest"
	"github.com/conclave-project/conclave/examples/internal/printed"
	"github.com/conclave-project/conclave/zk"
)

// Changes are printed even if the servers' leader is killed.
func TestConfigurationIsTold(t *testing.T) {
	e := conclavetest.Start(t)
	c := e.Client(t)
	told, _ := printed.Lines(t, func(ctx context.Context, out io.Writer) error { return run(ctx, e.Servers(), out) })
	printed.Await(t, told, "no configuration")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, _, err := c.Create(ctx, "/examples", nil, client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Create(ctx, "/examples/config", []byte("limit=10"), client.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	printed.Await(t, told, "version 0: limit=10")
	e.Kill(e.Leader())
	e.Leader()
	for {
		_, err := c.Set(ctx, "/examples/config", []byte("limit=20"), 0)
		if err == nil || errors.Is(err, zk.ErrBadVersion) { // done, or done before the answer was lost
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	printed.Await(t, told, "version 1: limit=20")
}
