package recipes

import (
	"context"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
)

// Send puts a letter at the end of the queue.
func Send(ctx context.Context, c *client.Client, letter []byte) error {
	return recipes.NewQueue(c, "/queues/mail", recipes.Options{}).Put(ctx, letter)
}

// Deliver takes letters out, and waits if there is none. Each letter goes to one of the receivers.
func Deliver(ctx context.Context, c *client.Client, deliver func(letter []byte)) error {
	queue := recipes.NewQueue(c, "/queues/mail", recipes.Options{})
	for {
		letter, err := queue.Take(ctx)
		if err != nil {
			return err
		}
		deliver(letter)
	}
}
