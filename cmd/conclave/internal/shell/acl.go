package shell

import (
	"context"
	"errors"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// gone reports whether an error says that a znode no longer exists.
func gone(err error) bool { return errors.Is(err, zk.ErrNoNode) }

func runGetACL(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	at := s.path(in.arg(0))
	entries, stat, err := conn.GetACL(ctx, at)
	if err != nil {
		return explain(err, at)
	}
	for _, entry := range entries {
		one := cli.NewACL(entry)
		s.println("'" + cli.Visible(one.Scheme) + ",'" + cli.Visible(one.ID) + "\n: " + one.Perms)
	}
	if in.has("s") {
		s.print(statText(stat))
	}
	return nil
}

func runSetACL(ctx context.Context, s *Shell, in *input) error {
	entries, err := cli.ParseACL(in.arg(1))
	if err != nil {
		return err
	}
	version, err := in.version()
	if err != nil {
		return err
	}
	at := s.path(in.arg(0))
	set := func(path string, version int32) (zk.Stat, error) {
		conn, ctx, cancel, err := s.within(ctx)
		if err != nil {
			return zk.Stat{}, err
		}
		defer cancel()
		stat, err := conn.SetACL(ctx, path, entries, version)
		return stat, explain(err, path)
	}
	if !in.has("R") {
		stat, err := set(at, version)
		if err == nil && in.has("s") {
			s.print(statText(stat))
		}
		return err
	}
	var all []string
	if err := s.walk(ctx, at, false, func(path string, _ int) error {
		all = append(all, path)
		return nil
	}); err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- { // descendants first: the new ACL may not let this client list children
		want := int32(-1)
		if i == 0 {
			want = version
		}
		if _, err := set(all[i], want); err != nil && (i == 0 || !gone(err)) {
			return err
		}
	}
	return nil
}
