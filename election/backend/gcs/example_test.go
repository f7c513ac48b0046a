package gcs_test

import (
	"context"
	"log"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/gcs"
)

// The credentials come from the environment: from the machine, the Pod or the
// function, or from gcloud auth application-default login.
func Example() {
	ctx := context.Background()
	backend, end, err := gcs.Open(ctx, "gs://my-bucket/elections")
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
