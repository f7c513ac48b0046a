package integration

import (
	"context"
	"strconv"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/fence"
	"github.com/conclave-project/conclave/election/fence/fencetest"
)

// numbered is a number in an object.
func numbered(objects fence.Objects, key string) fencetest.Resource {
	number := func(data []byte) int {
		n, _ := strconv.Atoi(string(data))
		return n
	}
	return fencetest.Resource{
		Claim: func(ctx context.Context, token election.Token) (value int, err error) {
			err = fence.UpdateObject(ctx, objects, key, token, func(old []byte) ([]byte, error) {
				value = number(old)
				return old, nil
			})
			return value, err
		},
		Write: func(ctx context.Context, token election.Token, value int) error {
			return fence.UpdateObject(ctx, objects, key, token, func([]byte) ([]byte, error) {
				return []byte(strconv.Itoa(value)), nil
			})
		},
		Read: func(ctx context.Context) (int, error) {
			content, err := fence.ReadObject(ctx, objects, key)
			return number(content.Data), err
		},
	}
}

var _ = []fence.Objects{s3Objects{}, azureObjects{}}
