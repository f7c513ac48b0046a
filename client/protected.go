package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/zk"
)

// CreateProtected is a Create that survives a lost reply (scenario-K01, CURATOR-498). The name
// gets a unique prefix: "_c_", an id and "-", as with Curator's protection. If the outcome is
// unknown, the client looks for the znode by that prefix once it is connected again, and creates
// it again only if it is not there. If ctx ends first, the error's outcome is Unknown and the
// znode may be there: FindProtected finds it by the prefix, which is also returned with an error.
// A create with which eleven connections were lost is given up, because it may be what ends them.
func (c *Client) CreateProtected(ctx context.Context, path string, data []byte, o CreateOptions) (created string, stat zk.Stat, prefix string, err error) {
	parent, name := zk.SplitPath(path)
	prefix = newPrefix()
	protected := zk.JoinPath(parent, prefix+name)
	for lost := 1; ; lost++ {
		created, stat, err = c.Create(ctx, protected, data, o)
		if err == nil || OutcomeOf(err) == NotApplied || !mayPass(err) || ctx.Err() != nil {
			return created, stat, prefix, err
		}
		found, findErr := c.FindProtected(ctx, parent, prefix)
		switch {
		case findErr == nil:
			if stat, err = c.protectedStat(ctx, found); err != nil {
				err = &Error{zk.OpCreate2, protected, err, Unknown}
			}
			return found, stat, prefix, err
		case o.Shared && errors.Is(findErr, zk.ErrNoNode), !errors.Is(findErr, zk.ErrNoNode):
			return "", zk.Stat{}, prefix, &Error{zk.OpCreate2, protected, findErr, Unknown}
		case lost > resendsMax:
			return "", zk.Stat{}, prefix, &Error{zk.OpCreate2, protected,
				fmt.Errorf("its connection was lost %d times, and it is not there: %w", lost, zk.ErrConnectionLoss), NotApplied}
		}
	}
}

func (c *Client) protectedStat(ctx context.Context, path string) (zk.Stat, error) {
	stat, found, err := c.Exists(ctx, path)
	if err == nil && !found {
		err = fmt.Errorf("client: %s was deleted at once: %w", path, zk.ErrNoNode)
	}
	return stat, err
}

// FindProtected returns the path of the child of parent whose name starts with prefix. It calls
// sync first, because a create whose reply was lost may not have reached the server in use yet.
// zk.ErrNoNode means that there is no such child.
func (c *Client) FindProtected(ctx context.Context, parent, prefix string) (string, error) {
	if err := c.Sync(ctx, parent); err != nil {
		return "", err
	}
	names, _, err := c.Children(ctx, parent)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			return zk.JoinPath(parent, name), nil
		}
	}
	return "", fmt.Errorf("client: no child of %s starts with %s: %w", parent, prefix, zk.ErrNoNode)
}

// newPrefix returns a unique prefix.
func newPrefix() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	h := hex.EncodeToString(id[:])
	return "_c_" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + "-"
}
