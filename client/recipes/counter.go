package recipes

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Counter is a number that many clients can change at once. It is stored as decimal text.
type Counter struct {
	c    *client.Client
	path string
	o    Options
}

// NewCounter returns the counter of a path, which is 0 if the path does not exist.
func NewCounter(c *client.Client, path string, o Options) *Counter { return &Counter{c, path, o} }

// Value returns the counter's value.
func (c *Counter) Value(ctx context.Context) (int64, error) {
	value, _, _, err := c.read(ctx)
	return value, err
}

// Add adds delta and returns the new value. It fails if the value would exceed 64 bits. After an
// error whose outcome is client.Unknown, delta may or may not have been added.
func (c *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	for {
		value, version, found, err := c.read(ctx)
		if err != nil {
			return 0, err
		}
		if sum := value + delta; (sum < value) != (delta < 0) {
			err := fmt.Errorf("%d and %d are more than fits in 64 bits", value, delta)
			return 0, &client.Error{Op: zk.OpSetData, Path: c.path, Err: err, Outcome: client.NotApplied}
		}
		value += delta
		text := strconv.AppendInt(nil, value, 10)
		if !found {
			err = inDir(ctx, c.c, zk.ParentPath(c.path), c.o.ACL, func() error {
				_, _, err := c.c.Create(ctx, c.path, text, client.CreateOptions{ACL: c.o.ACL})
				return err
			})
		} else {
			_, err = c.c.Set(ctx, c.path, text, version)
		}
		switch {
		case err == nil:
			return value, nil
		case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode):
			// Another client was faster: read again.
		default:
			return 0, err
		}
	}
}

// read returns the value, and the version of the znode if it exists. Versions are negative
// after 2^31 changes.
func (c *Counter) read(ctx context.Context) (value int64, version int32, found bool, err error) {
	data, stat, err := c.c.Get(ctx, c.path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return 0, 0, false, nil
	case err != nil:
		return 0, 0, false, err
	case len(data) == 0:
		return 0, stat.Version, true, nil
	}
	value, err = strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return 0, 0, false, fmt.Errorf("recipes: counter %s holds %q, want a decimal number", c.path, data)
	}
	return value, stat.Version, true, nil
}
