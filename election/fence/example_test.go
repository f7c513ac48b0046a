package fence_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
)

// The tokens of two leaderships: one that does not know yet that it is over, and the current one.
const zombie, leader election.Token = 33, 34

// What a process does by itself: a newer token ends older acts and shuts them out.
func ExampleFence_Do() {
	fenced, ctx := fence.New(), context.Background()
	pay := func(token election.Token) error {
		return fenced.Do(ctx, "payments", token, func(context.Context) error {
			fmt.Println("paid by", token)
			return nil
		})
	}
	fmt.Println(pay(zombie))
	fmt.Println(pay(leader))
	fmt.Println(pay(zombie))
	// Output:
	// paid by 33
	// <nil>
	// paid by 34
	// <nil>
	// fence "payments": token 33, seen 34: the token is stale: a later leader has been here
}

// A file keeps the tokens of a server across its restarts.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "fence-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, token := range []election.Token{leader, zombie} { // each in another run of the server
		fenced, err := fence.Open(filepath.Join(dir, "tokens"))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(fenced.Check("payments", token))
		_ = fenced.Close()
	}
	// Output:
	// <nil>
	// fence "payments": token 33, seen 34: the token is stale: a later leader has been here
}

// A server refuses requests of a zombie with status 412. A leader's client takes the token
// from the context of the leader's function; the example puts it there itself.
func ExampleFence_Handler() {
	orders := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "done") })
	server := httptest.NewServer(fence.New().Handler("orders", orders))
	defer server.Close()

	client := &http.Client{Transport: &fence.Transport{}}
	send := func(token election.Token) error {
		ctx := fence.WithToken(context.Background(), token)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("order"))
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		fmt.Println(token, answer.Status)
		return fence.CheckResponse(answer) // a leader that gets an error stops leading
	}
	_, _ = send(leader), send(zombie)
	// Output:
	// 34 200 OK
	// 33 412 Precondition Failed
}

// A file that several processes modify.
func ExampleFile() {
	dir, err := os.MkdirTemp("", "fence-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	report, ctx := fence.NewFile(filepath.Join(dir, "report")), context.Background()
	add := func(token election.Token, line string) {
		_, err := report.Update(ctx, token, func(old []byte) ([]byte, error) {
			return append(old, line+"\n"...), nil
		})
		if err != nil {
			fmt.Println("refused:", line)
		}
	}
	add(zombie, "first")
	add(leader, "second")
	add(zombie, "by a zombie")
	content, err := report.Read()
	fmt.Printf("%sversion %d, token %d, %v\n", content.Data, content.Version, content.Token, err)
	// Output:
	// refused: by a zombie
	// first
	// second
	// version 2, token 34, <nil>
}

// An object in a store with conditional writes; the module election/fence/integration has
// Objects for the clients of S3 and Azure.
func ExampleUpdateObject() {
	store, ctx := &bucket{}, context.Background()
	add := func(token election.Token, line string) error {
		return fence.UpdateObject(ctx, store, "report", token, func(old []byte) ([]byte, error) {
			return append(old, line+"\n"...), nil
		})
	}
	fmt.Println(add(leader, "by the leader"))
	fmt.Println(add(zombie, "by a zombie"))
	content, _ := fence.ReadObject(ctx, store, "report")
	fmt.Print(string(content.Data))
	// Output:
	// <nil>
	// fence "report": token 33, seen 34: the token is stale: a later leader has been here
	// by the leader
}
