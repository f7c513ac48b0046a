package s3_test

import (
	"context"
	"log"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/s3"
)

// A store other than Amazon's needs an endpoint. The credentials come from the environment.
func Example() {
	ctx := context.Background()
	backend, end, err := s3.Open(ctx,
		"s3://my-bucket/elections?endpoint=https://objects.example.com&path-style=true&region=us-east-1")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = end() }()
	elector, err := election.New(backend, "compaction", election.Options{Once: true})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		log.Printf("compacting with token %d", lead.Token())
		<-ctx.Done()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
