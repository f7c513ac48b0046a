package election_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/file"
	"github.com/conclave-project/conclave/election/electiontest"
)

// One of several processes on a machine does the work; the others wait.
func Example() {
	dir, err := os.MkdirTemp("", "elections-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	backend, err := file.New(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	elector, err := election.New(backend, "billing/nightly", election.Options{Once: true, ID: "host-1", Lease: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = elector.Run(context.Background(), func(ctx context.Context, lead election.Leadership) error {
		// ctx ends before anybody else may lead; lead.Token() only ever grows.
		fmt.Printf("%s leads %s with a token: %t\n", lead.ID(), lead.Election(), lead.Token() > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// host-1 leads billing/nightly with a token: true
	// <nil>
}

// A cron job runs on one of its hosts: where it cannot lead, it reports who does.
func ExampleElector_Try() {
	backend := electiontest.NewStore(nil) // a store of the program's choice
	host := func(id string) *election.Elector {
		elector, err := election.New(backend, "reports/nightly", election.Options{ID: id})
		if err != nil {
			panic(err)
		}
		return elector
	}
	err := host("host-1").Try(context.Background(), func(context.Context, election.Leadership) error {
		err := host("host-2").Try(context.Background(), nil)
		if held := (*election.HeldError)(nil); errors.As(err, &held) {
			fmt.Println("skipped,", held.View.Leader, "leads")
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// skipped, host-1 leads
	// <nil>
}

// A step that must not be interrupted begins only if enough time is left.
func ExampleLeadership_Ensure() {
	elector, err := election.New(electiontest.NewStore(nil), "billing", election.Options{Once: true})
	if err != nil {
		panic(err)
	}
	err = elector.Run(context.Background(), func(ctx context.Context, lead election.Leadership) error {
		if err := lead.Ensure(ctx, 2*time.Second); err != nil {
			return err
		}
		fmt.Println("two seconds are left")
		return nil
	})
	fmt.Println(err)
	// Output:
	// two seconds are left
	// <nil>
}

// Other hosts turn away requests that only the leader may serve.
func ExampleElector_IsLeader() {
	elector, err := election.New(electiontest.NewStore(nil), "billing", election.Options{})
	if err != nil {
		panic(err)
	}
	if lead, ok := elector.Leadership(); ok {
		fmt.Println("serving with token", lead.Token())
	} else {
		fmt.Println("this host is", elector.Status().State)
	}
	// Output: this host is stopped
}

// A client finds the leader by its metadata.
func ExampleElector_WaitLeader() {
	backend := electiontest.NewStore(nil) // a store of the program's choice
	leader, err := election.New(backend, "billing", election.Options{ID: "host-1", Metadata: []byte("10.0.0.7:8080")})
	if err != nil {
		panic(err)
	}
	err = leader.Try(context.Background(), func(ctx context.Context, _ election.Leadership) error {
		asking, err := election.New(backend, "billing", election.Options{})
		if err != nil {
			return err
		}
		view, err := asking.WaitLeader(ctx)
		fmt.Printf("%s leads at %s\n", view.Leader, view.Metadata)
		return err
	})
	fmt.Println(err)
	// Output:
	// host-1 leads at 10.0.0.7:8080
	// <nil>
}
