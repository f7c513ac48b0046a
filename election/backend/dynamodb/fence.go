package dynamodb

import (
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/conclave-project/conclave/election"
)

// Fence returns a check for a TransactWriteItems: the transaction is carried out only if nobody
// has been elected since the leadership with this token. Put it into the same transaction as the
// writes that only a leader may make. A stale leader gets a TransactionCanceledException with the
// reason ConditionalCheckFailed. The check costs two write units per KB of the item.
//
// A transaction and a renewal that reach the item at the same time make each other fail with a
// TransactionConflict. Renewals are retried for half a second; a program that writes with Fence
// must retry too. More than a few dozen fenced transactions a second can keep the leader from
// renewing: in that case, check the token once for many writes.
func Fence(options Options, name string, token election.Token) (types.TransactWriteItem, error) {
	options, err := options.validate()
	if err != nil {
		return types.TransactWriteItem{}, err
	}
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName:                &options.Table,
		Key:                      map[string]types.AttributeValue{options.Key: text(name)},
		ConditionExpression:      aws.String("#t = :t"),
		ExpressionAttributeNames: map[string]string{"#t": attributeToken},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":t": &types.AttributeValueMemberN{Value: strconv.FormatUint(uint64(token), 10)}},
	}}, nil
}
