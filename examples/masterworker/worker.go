package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// worker does the tasks that it is given, one after the other.
func worker(ctx context.Context, c *client.Client, takes time.Duration, out io.Writer) error {
	var random [4]byte
	_, _ = rand.Read(random[:])
	name := "w-" + hex.EncodeToString(random[:])
	// Both are created at once: tasks that are given to a worker that does not
	// exist are taken back.
	if _, err := c.Multi(ctx,
		client.CreateOp(assign+"/"+name, nil, client.CreateOptions{}),
		client.CreateOp(workers+"/"+name, nil, client.CreateOptions{Mode: zk.Ephemeral})); err != nil {
		return err
	}
	fmt.Fprintln(out, "here as", name)
	for {
		given, _, watch, err := c.ChildrenW(ctx, assign+"/"+name)
		if err != nil {
			return err // without its place, it is no longer a worker
		}
		if len(given) > 0 {
			watch.Close()
			if err := do(ctx, c, name, slices.Min(given), takes, out); err != nil {
				return err
			}
			continue
		}
		select {
		case <-watch.Events():
		case <-c.Done():
			return c.Err()
		case <-ctx.Done():
			return nil
		}
	}
}

// do does one task. Its result counts only if the task is still this worker's:
// if the worker was taken for dead, another worker has the task now.
func do(ctx context.Context, c *client.Client, worker, task string, takes time.Duration, out io.Writer) error {
	path := assign + "/" + worker + "/" + task
	text, _, err := c.Get(ctx, path)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s begins %s: %s\n", worker, task, text)
	select {
	case <-time.After(takes): // the work
	case <-c.Done():
		return c.Err()
	case <-ctx.Done():
		return nil
	}
	result := fmt.Appendf(nil, "%s, done by %s", text, worker)
	_, err = c.Multi(ctx, client.DeleteOp(path, -1), client.CreateOp(status+"/"+task, result, client.CreateOptions{}))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		fmt.Fprintf(out, "%s was taken away\n", task)
	case errors.Is(err, zk.ErrConnectionLoss): // perhaps it is done; if not, it is found again
	default:
		return err
	}
	return nil
}
