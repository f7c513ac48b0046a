//go:build linux && conformance

package dynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/dynamodb"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/electiontest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/stores"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		_ = os.Setenv(name, value) // the processes of the suite inherit it
	}
	storetest.Opener(dynamodb.Open).Main(m)
}

// lease is short, and polls are a twentieth of it apart, so that the tests do not take long.
const lease = 2 * time.Second

func TestDynamoDBBackendPassesTheSuite(t *testing.T) {
	server := stores.Start(t, "dynamodb")
	var tables atomic.Int64
	electiontest.Run(t, electiontest.Suite{
		Store: "DynamoDB Local " + server.Version,
		Lease: lease, Elections: 500,
		Open: open,
		URL: func(testing.TB) string {
			name := fmt.Sprintf("elections-%d", tables.Add(1))
			return strings.Replace(server.URL, "conclave-elections", name, 1) + "&poll=100ms"
		},
		Proxy: server.Proxy,
		Delete: func(t testing.TB, url, name string) {
			client, table := operator(t, url)
			_, err := client.DeleteItem(awaittest.Within(t), &awsdynamodb.DeleteItemInput{TableName: &table,
				Key: map[string]types.AttributeValue{"election": &types.AttributeValueMemberS{Value: name}}})
			if err != nil {
				t.Fatal(err)
			}
		},
		Left: func(t testing.TB, url string) int {
			client, table := operator(t, url)
			out, err := client.Scan(awaittest.Within(t), &awsdynamodb.ScanInput{TableName: &table})
			if err != nil {
				t.Fatal(err)
			}
			count := 0
			for _, item := range out.Items {
				if _, held := item["holder"]; held {
					count++
				}
				if r, ok := item["record"].(*types.AttributeValueMemberS); ok && strings.Contains(r.Value, `"next":`) {
					count++
				}
			}
			return count
		},
		Restart: func(t testing.TB, _ string) {
			if err := server.Restart(awaittest.Within(t)); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func open(t testing.TB, url string) election.Backend {
	return storetest.Opener(dynamodb.Open).Open(t, url)
}

// operator is a client that is none of the candidates, with the table of the URL.
func operator(t testing.TB, text string) (*awsdynamodb.Client, string) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := config.LoadDefaultConfig(awaittest.Within(t), config.WithRegion(u.Query().Get("region")))
	if err != nil {
		t.Fatal(err)
	}
	return awsdynamodb.NewFromConfig(loaded, func(o *awsdynamodb.Options) {
		o.BaseEndpoint = aws.String(u.Query().Get("endpoint"))
	}), u.Host
}

// TestStaleLeaderIsRefusedByTheTransaction: two leaderships write through
// Fence, and the first one comes too late.
func TestStaleLeaderIsRefusedByTheTransaction(t *testing.T) {
	server := stores.Start(t, "dynamodb")
	backend := open(t, server.URL)
	client, table := operator(t, server.URL)
	elector, err := election.New(backend, "billing", election.Options{Once: true, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	var tokens []election.Token
	for range 2 {
		err := elector.Run(awaittest.Within(t), func(_ context.Context, lead election.Leadership) error {
			tokens = append(tokens, lead.Token())
			return pay(client, table, lead.Token())
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err = pay(client, table, tokens[0])
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) || aws.ToString(cancelled.CancellationReasons[0].Code) != "ConditionalCheckFailed" {
		t.Errorf("the stale leader got %v", err)
	}
	if err := pay(client, table, tokens[1]); err != nil {
		t.Errorf("the last leader got %v", err)
	}
}

// pay writes an invoice into the same table if the token is still the last.
func pay(client *awsdynamodb.Client, table string, token election.Token) error {
	fence, err := dynamodb.Fence(dynamodb.Options{Table: table}, "billing", token)
	if err != nil {
		return err
	}
	_, err = client.TransactWriteItems(context.Background(), &awsdynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{fence, {Put: &types.Put{TableName: &table,
			Item: map[string]types.AttributeValue{"election": &types.AttributeValueMemberS{Value: "invoice"}}}}}})
	return err
}
