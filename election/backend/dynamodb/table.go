package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/conclave-project/conclave/election/backend/internal/polling"
)

// tablePoll is how often CreateTable checks whether the table exists. The SDK's own waiter
// begins with twenty seconds.
const tablePoll = 200 * time.Millisecond

// CreateTable creates the table of the options, unless it exists, and returns when it can be
// used. The table is billed on demand. Only the account's permissions protect it against
// deletion.
func CreateTable(ctx context.Context, client *dynamodb.Client, options Options) error {
	options, err := options.validate()
	if err != nil {
		return err
	}
	if err := createTable(ctx, client, options); err != nil {
		return fmt.Errorf("dynamodb: create table %q: %w", options.Table, err)
	}
	return nil
}

func createTable(ctx context.Context, client *dynamodb.Client, options Options) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   &options.Table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: &options.Key, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: &options.Key, KeyType: types.KeyTypeHash}},
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return err
	}
	return awaitTable(ctx, client, options)
}

// awaitTable returns when the table is active and has the right key.
func awaitTable(ctx context.Context, client *dynamodb.Client, options Options) error {
	for {
		out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &options.Table})
		var missing *types.ResourceNotFoundException // possible for a moment after CreateTable
		if err != nil && !errors.As(err, &missing) {
			return fmt.Errorf("wait for it: %w", err)
		}
		if err == nil && out.Table.TableStatus == types.TableStatusActive {
			return checkSchema(out.Table, options)
		}
		if err := polling.Sleep(ctx, tablePoll); err != nil {
			return fmt.Errorf("wait for it: %w", err)
		}
	}
}

func checkSchema(table *types.TableDescription, options Options) error {
	if len(table.KeySchema) == 1 && aws.ToString(table.KeySchema[0].AttributeName) == options.Key {
		return nil
	}
	return fmt.Errorf("it exists with another key; it must have the partition key %q and no sort key", options.Key)
}
