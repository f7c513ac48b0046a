package dynamodb_test

import (
	"context"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/dynamodb"
)

// The leader's write and a check of the election are one transaction: a leader
// that was paused and has been replaced writes nothing.
func ExampleFence() {
	ctx := context.Background()
	loaded, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	client, options := awsdynamodb.NewFromConfig(loaded), dynamodb.Options{Table: "conclave-elections"}
	backend, err := dynamodb.New(client, options)
	if err != nil {
		log.Fatal(err)
	}
	elector, err := election.New(backend, "billing", election.Options{Once: true})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(ctx, func(ctx context.Context, lead election.Leadership) error {
		fence, err := dynamodb.Fence(options, lead.Election(), lead.Token())
		if err != nil {
			return err
		}
		invoice := types.Put{TableName: aws.String("invoices"),
			Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "2026-11"}}}
		_, err = client.TransactWriteItems(ctx, &awsdynamodb.TransactWriteItemsInput{
			TransactItems: []types.TransactWriteItem{fence, {Put: &invoice}}})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
