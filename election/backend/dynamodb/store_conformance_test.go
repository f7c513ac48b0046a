//go:build linux && conformance

package dynamodb

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/logging"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/test/stores"
)

// realStore returns a store on a server of its own.
func realStore(t *testing.T) *store {
	t.Helper()
	server := stores.Start(t, "dynamodb")
	return storeAt(t, server, server.Addr)
}

// storeAt returns a store on a server that is reached at the given address.
func storeAt(t *testing.T, server *stores.Server, addr string) *store {
	t.Helper()
	u, err := url.Parse(strings.Replace(server.URL, server.Addr, addr, 1))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("eu-central-1"))
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(loaded, func(o *dynamodb.Options) {
		o.BaseEndpoint = aws.String(u.Query().Get("endpoint"))
		o.Logger = logging.Nop{} // the SDK warns of every conflict
	})
	options := Options{Table: u.Host, Poll: 50 * time.Millisecond}
	for range 2 { // the second one finds the table
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

func TestStoreOnDynamoDBLocal(t *testing.T) {
	s := realStore(t)
	storetest.Run(t, storetest.Suite{
		Open: func(t testing.TB) record.Store {
			other, err := newStore(s.client, s.options)
			if err != nil {
				t.Fatal(err)
			}
			return other
		},
		Delete: func(t testing.TB, name string) {
			_, err := s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &s.options.Table, Key: s.key(name)})
			if err != nil {
				t.Fatal(err)
			}
		},
	})
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

// TestWriteWhoseAnswerIsLostIsNoConflict: its outcome is unknown, and the next
// read reveals it.
func TestWriteWhoseAnswerIsLostIsNoConflict(t *testing.T) {
	server := stores.Start(t, "dynamodb")
	link, err := server.Link()
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	far := storeAt(t, server, link.Addr)
	storetest.LostAnswer(t, link, storeAt(t, server, server.Addr), far)
}
