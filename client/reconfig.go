package client

import (
	"context"
	"errors"
	"strings"

	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/zk"
)

// Change is a change of the ensemble. Give either Joining and Leaving, or Members.
type Change struct {
	Joining []string // "server.5=host:2888:3888:participant;2181"
	Leaving []string // ids, "5"
	Members []string // the whole new ensemble, lines as in Joining
	// Version is the version of the configuration to change, as in the version= line of GetConfig;
	// -1 is any.
	Version int64
}

// Reconfig changes the members of the ensemble. It returns the configuration that is then in force,
// and its stat. It needs write permission on /zookeeper/config, and a server that allows it
// (reconfigEnabled).
func (c *Client) Reconfig(ctx context.Context, change Change) ([]byte, zk.Stat, error) {
	body := zk.Reconfig{ConfigID: change.Version}
	incremental := len(change.Joining)+len(change.Leaving) > 0
	if incremental == (len(change.Members) > 0) {
		return nil, zk.Stat{}, refusal(zk.OpReconfig, "", errors.New("want either joining and leaving servers, or members"))
	}
	join := func(lines []string) *string {
		if len(lines) == 0 {
			return nil
		}
		text := strings.Join(lines, ",")
		return &text
	}
	body.Joining, body.Leaving, body.NewMembers = join(change.Joining), join(change.Leaving), join(change.Members)
	r, err := c.do(ctx, &zk.Request{Op: zk.OpReconfig, Reconfig: &body}, nil, "")
	return r.Data, r.Stat, err
}

// GetConfig returns the ensemble's configuration as text, and its stat. The path is outside any
// chroot.
func (c *Client) GetConfig(ctx context.Context) ([]byte, zk.Stat, error) {
	r, err := c.do(ctx, &zk.Request{Op: zk.OpGetData, Path: zk.ConfigPath}, nil, zk.ConfigPath)
	return r.Data, r.Stat, err
}

// GetConfigW is like GetConfig, and also sets a watch that fires once when the configuration
// changes.
func (c *Client) GetConfigW(ctx context.Context) ([]byte, zk.Stat, *Watch, error) {
	w := c.newWatch(zk.ConfigPath, clientsession.DataWatch)
	w.inner.Path = zk.ConfigPath
	r, err := c.do(ctx, &zk.Request{Op: zk.OpGetData, Path: zk.ConfigPath, Watch: true}, &w.inner, zk.ConfigPath)
	if err != nil {
		return nil, zk.Stat{}, nil, err
	}
	return r.Data, r.Stat, w, nil
}
