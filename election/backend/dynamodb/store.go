package dynamodb

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/conclave-project/conclave/election/backend/internal/polling"
	"github.com/conclave-project/conclave/election/record"
)

// The attributes of an item in addition to its key.
const (
	attributeVersion = "version"
	attributeRecord  = "record"
	attributeToken   = "token"
	attributeHolder  = "holder"
)

// store is a record.Store.
type store struct {
	client  *dynamodb.Client
	options Options
	pace    *polling.Pace
	create  bool        // the table, if there is none (dynamodb-D5)
	seen    atomic.Bool // the table
}

func newStore(client *dynamodb.Client, options Options) (*store, error) {
	options, err := options.validate()
	if err != nil {
		return nil, err
	}
	return &store{client: client, options: options, pace: polling.New(options.Poll, pollLeast)}, nil
}

// Read gets the item.
func (s *store) Read(ctx context.Context, name string) (record.Record, string, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:      &s.options.Table,
		Key:            s.key(name),
		ConsistentRead: aws.Bool(true),
	}, once)
	switch {
	case s.awaits(err):
		return record.Record{}, "", nil
	case err != nil:
		return record.Record{}, "", s.explain("read from", err)
	}
	s.seen.Store(true)
	if len(out.Item) == 0 {
		return record.Record{}, "", nil
	}
	r, version, err := decode(out.Item)
	if err != nil {
		return record.Record{}, "", s.explain("read from", err)
	}
	s.pace.Note(name, time.Duration(r.LeaseMs)*time.Millisecond)
	return r, version, nil
}

// Write puts the item if it still has the given version (dynamodb-D1, dynamodb-D2).
func (s *store) Write(ctx context.Context, name string, r record.Record, version string) (string, error) {
	next := rand.Text()
	item, err := s.encode(name, r, next)
	if err != nil {
		return "", s.explain("write to", err)
	}
	input := &dynamodb.PutItemInput{
		TableName:                           &s.options.Table,
		Item:                                item,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if version == "" {
		input.ConditionExpression = aws.String("attribute_not_exists(#a)")
		input.ExpressionAttributeNames = map[string]string{"#a": s.options.Key}
	} else {
		input.ConditionExpression = aws.String("#a = :v")
		input.ExpressionAttributeNames = map[string]string{"#a": attributeVersion}
		input.ExpressionAttributeValues = map[string]types.AttributeValue{":v": text(version)}
	}
	err = s.put(ctx, input)
	if s.awaits(err) {
		if err := createTable(ctx, s.client, s.options); err != nil {
			return "", s.explain("create", err)
		}
		err = s.put(ctx, input)
	}
	if err != nil && !isOwn(err, next) {
		return "", s.explain("write to", err)
	}
	return next, nil
}

// awaits reports whether a request failed because the table has not been created yet (dynamodb-D5).
func (s *store) awaits(err error) bool {
	var missing *types.ResourceNotFoundException
	return s.create && !s.seen.Load() && errors.As(err, &missing)
}

// put writes once. While a transaction holds the item, such as one with Fence, the service
// refuses at once and writes nothing. Trying again is then not a second attempt.
func (s *store) put(ctx context.Context, input *dynamodb.PutItemInput) error {
	for pause := conflictPause; ; pause *= 2 {
		_, err := s.client.PutItem(ctx, input, once)
		var busy *types.TransactionConflictException
		if !errors.As(err, &busy) || pause > conflictPauseMax {
			return err
		}
		timer := time.NewTimer(pause/2 + randv2.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// The pauses before a write that met a transaction is tried again: about half a second in
// all.
const (
	conflictPause    = 4 * time.Millisecond
	conflictPauseMax = 256 * time.Millisecond
)

// isOwn reports whether a write was refused because it had already been carried out: the
// service itself tried twice (dynamodb-D3).
func isOwn(err error, version string) bool {
	var refused *types.ConditionalCheckFailedException
	if !errors.As(err, &refused) {
		return false
	}
	stored, ok := refused.Item[attributeVersion].(*types.AttributeValueMemberS)
	return ok && stored.Value == version
}

// Wait returns when it is time to read again.
func (s *store) Wait(ctx context.Context, name, _ string, limit time.Duration) error {
	return s.pace.Wait(ctx, name, limit)
}

// Names scans the table, page by page.
func (s *store) Names(ctx context.Context) ([]string, error) {
	pages := dynamodb.NewScanPaginator(s.client, &dynamodb.ScanInput{
		TableName:                &s.options.Table,
		ConsistentRead:           aws.Bool(true),
		ProjectionExpression:     aws.String("#k"),
		FilterExpression:         aws.String("attribute_exists(#r)"),
		ExpressionAttributeNames: map[string]string{"#k": s.options.Key, "#r": attributeRecord},
	})
	var names []string
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		switch {
		case s.awaits(err):
			return nil, nil
		case err != nil:
			return nil, s.explain("scan", err)
		}
		for _, item := range page.Items {
			if name, ok := item[s.options.Key].(*types.AttributeValueMemberS); ok {
				names = append(names, name.Value)
			}
		}
	}
	return names, nil
}

// once turns off the retries of one call (dynamodb-D3). The caller tries again while it
// makes sense.
func once(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

func (s *store) key(name string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{s.options.Key: text(name)}
}

func (s *store) encode(name string, r record.Record, version string) (map[string]types.AttributeValue, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	item := s.key(name)
	item[attributeVersion] = text(version)
	item[attributeRecord] = text(string(data))
	item[attributeToken] = &types.AttributeValueMemberN{Value: strconv.FormatUint(uint64(r.Token), 10)}
	if r.Holder != "" {
		item[attributeHolder] = text(r.Holder)
	}
	return item, nil
}

// errNotOurs is returned for an item that another program has written.
var errNotOurs = errors.New("the item is not of an election; use a table, or a key, of its own")

func decode(item map[string]types.AttributeValue) (r record.Record, version string, err error) {
	v, hasVersion := item[attributeVersion].(*types.AttributeValueMemberS)
	data, hasRecord := item[attributeRecord].(*types.AttributeValueMemberS)
	if !hasVersion || !hasRecord || v.Value == "" {
		return r, "", errNotOurs
	}
	if err := json.Unmarshal([]byte(data.Value), &r); err != nil {
		return r, "", fmt.Errorf("%w: %w", errNotOurs, err)
	}
	return r, v.Value, nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
