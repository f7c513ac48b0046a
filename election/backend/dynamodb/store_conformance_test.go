//go:build linux && conformance

package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/test/stores"
)

// realStore is a store on a server of its own.
func realStore(t *testing.T) *store {
	t.Helper()
	server := stores.Start(t, "dynamodb")
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("eu-central-1"))
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(loaded, func(o *dynamodb.Options) {
		o.BaseEndpoint = aws.String(u.Query().Get("endpoint"))
	})
	options := Options{Table: u.Host}
	for range 2 { // the second finds it there
		if err := CreateTable(t.Context(), client, options); err != nil {
			t.Fatal(err)
		}
	}
	s, err := newStore(client, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestOneOfEightWritersWinsEachRound, from an election that does not exist on.
func TestOneOfEightWritersWinsEachRound(t *testing.T) {
	s := realStore(t)
	seen := map[string]bool{}
	for round := range 30 {
		_, version, err := s.Read(t.Context(), "race")
		if err != nil {
			t.Fatal(err)
		}
		if next := raceOf(t, s, version, 8); seen[next] {
			t.Fatalf("round %d: version %q came back", round, next)
		} else {
			seen[next] = true
		}
	}
}

// raceOf lets so many write over the same version and returns the winner's.
func raceOf(t *testing.T, s *store, version string, writers int) string {
	t.Helper()
	var group sync.WaitGroup
	results := make(chan string, writers)
	for i := range writers {
		group.Go(func() {
			next, err := s.Write(t.Context(), "race", record.Record{Holder: fmt.Sprint(i)}, version)
			if err == nil {
				results <- next
			} else if !errors.Is(err, record.ErrConflict) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	close(results)
	if len(results) != 1 {
		t.Fatalf("%d writers won", len(results))
	}
	next := <-results
	if _, now, err := s.Read(t.Context(), "race"); err != nil || now != next {
		t.Fatalf("version %q, %v; the winner's is %q", now, err, next)
	}
	return next
}

// TestVersionDoesNotComeBackAfterDeletion, and neither does a write that
// expected it.
func TestVersionDoesNotComeBackAfterDeletion(t *testing.T) {
	s := realStore(t)
	same := record.Record{Holder: "a", Token: 7}
	first, err := s.Write(t.Context(), "e", same, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &s.options.Table, Key: s.key("e")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), "e", same, first); !errors.Is(err, record.ErrConflict) {
		t.Errorf("write over a deleted item: %v", err)
	}
	second, err := s.Write(t.Context(), "e", same, "")
	if err != nil || second == first {
		t.Errorf("version %q after %q, %v", second, first, err)
	}
}

func TestMissingTableIsFinalAndSaysWhatToDo(t *testing.T) {
	s := realStore(t)
	s.options.Table = "no-such-table"
	_, _, err := s.Read(t.Context(), "e")
	if !errors.Is(err, election.ErrPermanent) {
		t.Errorf("read: %v", err)
	}
	if _, err = s.Write(t.Context(), "e", record.Record{}, ""); !errors.Is(err, election.ErrPermanent) {
		t.Errorf("write: %v", err)
	}
}

func TestTableWithAnotherKeyIsRefused(t *testing.T) {
	s := realStore(t)
	other := s.options
	other.Key = "id"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := CreateTable(ctx, s.client, other); err == nil || ctx.Err() != nil {
		t.Errorf("error %v", err)
	}
}
