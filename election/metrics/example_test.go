package metrics_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/election/metrics"
)

func Example() {
	counted := metrics.New()
	prometheus.MustRegister(counted)
	defer prometheus.Unregister(counted)
	elector, err := election.New(electiontest.NewStore(nil), "billing/nightly", election.Options{
		Once:    true,
		OnEvent: counted.OnEvent(nil), // or your own function, which it also calls
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = elector.Run(context.Background(), func(context.Context, election.Leadership) error {
		shown, _ := testutil.CollectAndFormat(counted, expfmt.TypeTextPlain, "conclave_election_leading")
		fmt.Print(string(shown))
		return nil
	})
	// Output:
	// # HELP conclave_election_leading 1 while this process leads the election.
	// # TYPE conclave_election_leading gauge
	// conclave_election_leading{election="billing/nightly"} 1
}
