package grpcfence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

// A server with grpcfence.UnaryServer(fence.New(), "number") and a client with
// grpcfence.UnaryClient. A call needs nothing but the context of the leader's
// function; the example puts the tokens there itself.
func Example() {
	conn, stop, err := connect(fence.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	call := func(token election.Token) {
		_, err := put(fence.WithToken(context.Background(), token), conn, 1)
		fmt.Println(token, "is a zombie's:", errors.Is(err, fence.ErrStale)) // a zombie stops leading
	}
	call(34)
	call(33)
	// Output:
	// 34 is a zombie's: false
	// 33 is a zombie's: true
}
