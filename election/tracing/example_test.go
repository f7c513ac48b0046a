package tracing_test

import (
	"context"
	"fmt"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
)

func Example() {
	spans, _, recorder := recorded() // in a program: tracing.New(otel.GetTracerProvider())
	elector, err := election.New(electiontest.NewStore(nil), "billing/nightly", election.Options{
		Once:    true,
		OnEvent: spans.OnEvent(nil),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = elector.Run(context.Background(), func(ctx context.Context, lead election.Leadership) error {
		lead.Resign()
		<-ctx.Done()
		return nil
	})
	for _, span := range recorder.Ended() {
		a := attributes(span.Attributes())
		fmt.Println(span.Name(), a["conclave.election"], "with token", a["conclave.token"]+":", a["conclave.reason"])
	}
	// Output:
	// leadership billing/nightly with token 1: resigned
}
