package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Vote writes down what a participant can do, yes or no, and waits for the outcome. A participant
// that votes yes must first have written down what it needs to commit, and is bound by the outcome,
// however late it comes.
func Vote(ctx context.Context, c *client.Client, transaction, name, vote string) (outcome string, err error) {
	_, _, err = c.CreateAll(ctx, transaction+"/votes/"+name, []byte(vote), client.CreateOptions{})
	if err != nil && !errors.Is(err, zk.ErrNodeExists) { // it had voted before it was started again
		return "", err
	}
	return await(ctx, c, transaction+"/outcome")
}

// Decide waits for the votes, at most for the given patience, and decides. Anybody may call it,
// even several at once: the first outcome that is written is the outcome.
func Decide(ctx context.Context, c *client.Client, patience time.Duration, transaction string, participants ...string) (outcome string, err error) {
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outcome = "commit"
	for _, name := range participants {
		if vote, err := await(patient, c, transaction+"/votes/"+name); err != nil || vote != "yes" {
			outcome = "abort"
		}
	}
	_, _, err = c.CreateAll(ctx, transaction+"/outcome", []byte(outcome), client.CreateOptions{})
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return "", err
	}
	return await(ctx, c, transaction+"/outcome")
}

// await waits until a znode exists, and returns its data.
func await(ctx context.Context, c *client.Client, path string) (string, error) {
	for {
		_, exists, watch, err := c.ExistsW(ctx, path)
		if err != nil {
			return "", err
		}
		if exists {
			watch.Close()
			data, _, err := c.Get(ctx, path)
			return string(data), err
		}
		select {
		case <-watch.Events():
		case <-ctx.Done():
			watch.Close()
			return "", context.Cause(ctx)
		}
	}
}
