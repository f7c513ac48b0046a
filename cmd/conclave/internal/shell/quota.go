package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
)

// limitNames are the options of setquota and delquota, in the order of the fields in limit.
var limitNames = []string{"n", "b", "N", "B"}

// limit returns the field of l that an option sets.
func limit(l *tree.Limits, option string) *int64 {
	switch option {
	case "n":
		return &l.Count
	case "b":
		return &l.Bytes
	case "N":
		return &l.CountHard
	}
	return &l.BytesHard
}

// quota is the limits and the usage of a path, as read from the server.
type quota struct {
	limits  tree.Limits
	usage   tree.Limits
	version int32 // of the limits
}

// quotas returns an error if the session cannot see quotas, because its list of servers
// ends in a path.
func (s *Shell) quotas() error {
	_, rest, found := strings.Cut(s.servers, "://")
	if !found {
		rest = s.servers
	}
	if _, chroot, _ := strings.Cut(rest, "/"); strings.Trim(chroot, "/") == "" {
		return nil
	}
	return errors.New("quotas are outside the part of the tree that this session sees: connect without a path after the servers")
}

// readQuota reads the quota of a path.
func (s *Shell) readQuota(ctx context.Context, conn *client.Client, path string) (quota, error) {
	limits, usage := tree.QuotaZnodes(path)
	text, stat, err := conn.Get(ctx, limits)
	if err != nil {
		return quota{}, err
	}
	used, _, err := conn.Get(ctx, usage)
	if err != nil && !gone(err) {
		return quota{}, err
	}
	return quota{tree.ParseLimits(string(text)), tree.ParseLimits(string(used)), stat.Version}, nil
}

// quotaPath returns the znode that a quota command is about, or an error if quotas cannot
// be shown.
func (s *Shell) quotaPath(in *input) (string, error) {
	if err := s.quotas(); err != nil {
		return "", err
	}
	at := s.path(in.arg(0))
	return at, zk.ValidatePath(at)
}

func runListQuota(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at, err := s.quotaPath(in)
	if err != nil {
		return err
	}
	limits, _ := tree.QuotaZnodes(at)
	s.say("absolute path is " + cli.Visible(limits))
	q, err := s.readQuota(ctx, conn, at)
	if gone(err) {
		return failure("quota for " + cli.Visible(at) + " does not exist.")
	}
	if err != nil {
		return explain(err, limits)
	}
	s.println("Output quota for " + cli.Visible(at) + " " + q.limits.Text())
	s.println(fmt.Sprintf("Output stat for %s count=%d,bytes=%d", cli.Visible(at), q.usage.Count, q.usage.Bytes))
	return nil
}

func runSetQuota(ctx context.Context, s *Shell, in *input) error {
	option, most := "", int64(0)
	for _, one := range limitNames {
		if !in.has(one) {
			continue
		}
		n, err := in.number(one, 10, 0)
		what, least := "num", int64(1)
		if one == "b" || one == "B" {
			what, least = "bytes", 0
		}
		if err != nil {
			return err
		}
		if n < least {
			return failure("the " + what + " quota must be greater than " + map[int64]string{1: "zero", 0: "or equal to zero"}[least])
		}
		option, most = one, n
	}
	if option == "" {
		return errors.New("a limit is missing: -n, -b, -N or -B")
	}
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at := s.path(in.arg(0))
	if err := s.mayHaveQuota(ctx, conn, at); err != nil {
		return err
	}
	if err := writeQuota(ctx, s, conn, at, option, most); err != nil {
		return explain(err, at)
	}
	q, err := s.readQuota(ctx, conn, at)
	if err != nil {
		return explain(err, at)
	}
	warn := func(what string, soft, hard, used int64) {
		if soft >= 0 && soft < used || hard >= 0 && hard < used {
			s.println(fmt.Sprintf("[Warning]: the %s quota you create is less than the existing %s:%d", what, what, used))
		}
	}
	warn("count", q.limits.Count, q.limits.CountHard, q.usage.Count)
	warn("bytes", q.limits.Bytes, q.limits.BytesHard, q.usage.Bytes)
	return nil
}

// mayHaveQuota refuses a path that does not exist, belongs to the servers, or is above or
// below a path with a quota: servers would count for only one of the two.
func (s *Shell) mayHaveQuota(ctx context.Context, conn *client.Client, at string) error {
	if err := s.quotas(); err != nil {
		return err
	}
	if err := zk.ValidatePath(at); err != nil {
		return err
	}
	if at == zk.RootPath {
		return errors.New("servers keep no quota for the root")
	}
	if at == zk.SystemPath || strings.HasPrefix(at, zk.SystemPath+"/") {
		return failure("cannot set a quota under the path: " + zk.QuotaPath)
	}
	if _, found, err := conn.Exists(ctx, at); err != nil || !found {
		if err == nil {
			err = failure(cli.Visible(at) + " does not exist.")
		}
		return err
	}
	for above := zk.ParentPath(at); above != zk.RootPath; above = zk.ParentPath(above) {
		if _, err := s.readQuota(ctx, conn, above); err == nil {
			return failure(cli.Visible(at) + " has a parent " + cli.Visible(above) + " which has a quota")
		} else if !gone(err) {
			return err
		}
	}
	own, _ := tree.QuotaZnodes(at)
	err := s.walk(ctx, zk.ParentPath(own), false, func(znode string, _ int) error {
		below := strings.TrimPrefix(zk.ParentPath(znode), zk.QuotaPath)
		if limits, _ := tree.QuotaZnodes(below); znode == limits && znode != own {
			return failure(cli.Visible(at) + " has a child " + cli.Visible(below) + " which has a quota")
		}
		return nil
	})
	if gone(err) {
		return nil
	}
	return err
}

// writeQuota creates both znodes of a quota in one transaction, or changes one limit.
func writeQuota(ctx context.Context, s *Shell, conn *client.Client, at, option string, most int64) error {
	limits, usage := tree.QuotaZnodes(at)
	q, err := s.readQuota(ctx, conn, at)
	if err == nil {
		*limit(&q.limits, option) = most
		_, err = conn.Set(ctx, limits, []byte(q.limits.Text()), q.version)
		return err
	}
	if !gone(err) {
		return err
	}
	fresh := tree.Limits{Count: -1, Bytes: -1, CountHard: -1, BytesHard: -1}
	*limit(&fresh, option) = most
	if _, _, err := conn.CreateAll(ctx, zk.ParentPath(limits), nil, client.CreateOptions{}); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	_, err = conn.Multi(ctx, client.CreateOp(limits, []byte(fresh.Text()), client.CreateOptions{}),
		client.CreateOp(usage, []byte("count=0,bytes=0"), client.CreateOptions{}))
	return err
}

func runDelQuota(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at, err := s.quotaPath(in)
	if err != nil {
		return err
	}
	q, err := s.readQuota(ctx, conn, at)
	if gone(err) {
		s.println("Quota does not exist for " + cli.Visible(at))
		return nil
	}
	if err != nil {
		return explain(err, at)
	}
	limits, usage := tree.QuotaZnodes(at)
	for _, option := range limitNames {
		if in.has(option) {
			*limit(&q.limits, option) = -1
			_, err := conn.Set(ctx, limits, []byte(q.limits.Text()), q.version)
			return explain(err, at)
		}
	}
	_, err = conn.Multi(ctx, client.DeleteOp(limits, -1), client.DeleteOp(usage, -1))
	if gone(err) {
		err = conn.Delete(ctx, limits, -1) // the usage did not exist
	}
	for above := zk.ParentPath(limits); err == nil && above != zk.QuotaPath; above = zk.ParentPath(above) {
		err = conn.Delete(ctx, above, -1)
	}
	if errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return explain(err, at)
}
