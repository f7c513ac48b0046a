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

// CreateProtected is Create that survives a lost reply (scenario-K01, CURATOR-498). The
// name gets a prefix that nobody else has, "_c_" and an id and "-" as Curator's
// protection gives it; when the outcome is unknown, the znode is looked for by
// that prefix once there is a connection again, and created again only if it is
// not there. When ctx ends first, the error's outcome is Unknown and the znode
// may be there: prefix, also returned with an error, finds it with
// FindProtected. A create that eleven connections were lost with is given up, as it
// may be what they die of.
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

// FindProtected returns the path of the child of parent whose name starts with
// prefix. It asks the leader's state (sync): a create whose reply was lost may
// not have reached the server in use yet. zk.ErrNoNode is no such child.
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

// newPrefix returns a prefix that nobody else has.
func newPrefix() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	h := hex.EncodeToString(id[:])
	return "_c_" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + "-"
}
