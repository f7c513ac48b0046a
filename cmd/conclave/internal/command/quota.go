package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/tree"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// limited is a path with its quota as JSON. Limits that are not set are omitted.
type limited struct {
	Path      string `json:"path"`
	Znodes    int64  `json:"znodes"`
	Bytes     int64  `json:"bytes"`
	Count     *int64 `json:"countLimit,omitempty"`
	CountHard *int64 `json:"countHardLimit,omitempty"`
	BytesSoft *int64 `json:"bytesLimit,omitempty"`
	BytesHard *int64 `json:"bytesHardLimit,omitempty"`
}

func newQuota() *cobra.Command {
	c := &cobra.Command{
		Use:   "quota",
		Short: "Print, set or remove limits on what is below a znode",
		Example: `  conclave quota set /app --count 1000 --bytes-hard 1000000
  conclave quota get`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newQuotaGet(), newQuotaSet(), newQuotaRm())
	return c
}

// atRoot opens a session with the whole tree, in which the chroot of the servers must be
// put before paths: the znodes of quotas are outside the chroot.
func (n *connection) atRoot(c *cobra.Command, f func(ctx context.Context, s *session, chroot string) error) error {
	chroot, err := n.leaveChroot()
	if err != nil {
		return err
	}
	return n.session(c, func(ctx context.Context, s *session) error { return f(ctx, s, chroot) })
}

// leaveChroot makes sessions see the whole tree, and returns the chroot of the servers; ""
// for none.
func (n *connection) leaveChroot() (chroot string, err error) {
	store, err := cli.Servers(n.servers)
	if err != nil {
		return "", err
	}
	list, chroot, found := strings.Cut(store.Servers, "/")
	if chroot = strings.TrimSuffix(chroot, "/"); found && chroot != "" {
		chroot = "/" + chroot
	}
	n.servers = strings.TrimSuffix(store.URL, store.Servers) + list
	return chroot, nil
}

// under returns a path of the user below a chroot.
func under(chroot, path string) string {
	if path == zk.RootPath && chroot != "" {
		return chroot
	}
	return chroot + path
}

func newQuotaGet() *cobra.Command {
	var n connection
	c := &cobra.Command{
		Use:   "get [PATH]",
		Short: "Print limits and how much of them is used",
		Example: `  conclave quota get
  conclave quota get /app -o json`,
		Long: `Prints how many znodes there are at and below PATH, how many bytes of data they
have in total, and the limits of both; without PATH, it does so for all paths that
have a quota. The servers log a write beyond a soft limit, and refuse one beyond a
hard limit if their configuration has enforceQuota=true.`,
		Args: takes(1),
		RunE: func(c *cobra.Command, args []string) error {
			return n.atRoot(c, func(ctx context.Context, s *session, chroot string) error {
				if len(args) == 0 {
					return quotas(ctx, s, chroot)
				}
				one, err := quotaOf(ctx, s, under(chroot, args[0]))
				if err != nil {
					return noQuota(args[0], err)
				}
				shown := one.shown(args[0])
				return s.Answer(shown, func(w io.Writer) error { return quotaTable(w, []limited{shown}) })
			})
		},
	}
	n.add(c)
	return c
}

// quota is the quota of a path as it was read.
type quota struct {
	limits  tree.Limits
	usage   tree.Usage
	version int32 // of the limits
}

// quotaOf reads the quota of an absolute path.
func quotaOf(ctx context.Context, s *session, path string) (quota, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	limits, usage := tree.QuotaZnodes(path)
	text, stat, err := s.Get(ctx, limits)
	if err != nil {
		return quota{}, err
	}
	used, _, err := s.Get(ctx, usage)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return quota{}, err
	}
	sums := tree.ParseLimits(string(used))
	return quota{tree.ParseLimits(string(text)), tree.Usage{Count: max(sums.Count, 0), Bytes: max(sums.Bytes, 0)}, stat.Version}, nil
}

// noQuota says which path has no quota, if that is the error.
func noQuota(path string, err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return cli.NotFound(fmt.Errorf("%s has no quota", path), "conclave quota get lists the paths that have one, conclave quota set sets one")
	}
	return err
}

func (q *quota) shown(path string) limited {
	set := func(limit int64) *int64 {
		if limit < 0 {
			return nil
		}
		return &limit
	}
	return limited{
		Path: path, Znodes: q.usage.Count, Bytes: q.usage.Bytes, Count: set(q.limits.Count), CountHard: set(q.limits.CountHard),
		BytesSoft: set(q.limits.Bytes), BytesHard: set(q.limits.BytesHard),
	}
}

// quotas prints all quotas below a chroot.
func quotas(ctx context.Context, s *session, chroot string) error {
	all := []limited{}
	look := func(znode string) error {
		path, ok := strings.CutPrefix(znode, zk.QuotaPath+chroot)
		name := path[strings.LastIndexByte(path, '/')+1:]
		path = max(strings.TrimSuffix(path, "/"+name), "/")
		if limits, _ := tree.QuotaZnodes(under(chroot, path)); !ok || znode != limits {
			return nil
		}
		one, err := quotaOf(ctx, s, under(chroot, path))
		if err == nil {
			all = append(all, one.shown(path))
		}
		if errors.Is(err, zk.ErrNoNode) {
			err = nil // it was removed meanwhile
		}
		return err
	}
	if err := walk(ctx, s, zk.QuotaPath+chroot, true, look); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	sortBy(all, func(a, b limited) int { return strings.Compare(a.Path, b.Path) })
	return s.Answer(all, func(w io.Writer) error { return quotaTable(w, all) })
}

func quotaTable(w io.Writer, all []limited) error {
	number := func(limit *int64) string {
		if limit == nil {
			return "-"
		}
		return strconv.FormatInt(*limit, 10)
	}
	rows := make([][]string, len(all))
	for i, q := range all {
		rows[i] = []string{strconv.FormatInt(q.Znodes, 10), number(q.Count), number(q.CountHard),
			strconv.FormatInt(q.Bytes, 10), number(q.BytesSoft), number(q.BytesHard), q.Path}
	}
	return cli.Table(w, []string{"ZNODES", "LIMIT", "HARD LIMIT", "BYTES", "LIMIT", "HARD LIMIT", "PATH"}, rows)
}

// quotaSet is the flags of `conclave quota set`.
type quotaSet struct {
	connection
	limits tree.Limits
}

func newQuotaSet() *cobra.Command {
	v := &quotaSet{}
	c := &cobra.Command{
		Use:   "set PATH",
		Short: "Set limits on what is below a znode",
		Long: `Sets limits for PATH, which must exist; limits without a flag stay as they are.
The servers log a write beyond a soft limit, and refuse one beyond a hard limit if
their configuration has enforceQuota=true. The znode itself counts. Quotas do not
nest: PATH is refused if a path above or below it has a quota already, and so is
the root, for which servers keep no quota.

The limits are the znodes below /zookeeper/quota that zkCli.sh writes.`,
		Example: `  conclave quota set /app --count 10000 --bytes-hard 50000000`,
		Args:    takes(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := v.check(c); err != nil {
				return err
			}
			return v.atRoot(c, func(ctx context.Context, s *session, chroot string) error {
				return v.run(ctx, c, s, chroot, args[0])
			})
		},
	}
	v.add(c)
	f := c.Flags()
	f.Int64VarP(&v.limits.Count, "count", "n", -1, "soft limit of znodes")
	f.Int64VarP(&v.limits.CountHard, "count-hard", "N", -1, "hard limit of znodes")
	f.Int64VarP(&v.limits.Bytes, "bytes", "b", -1, "soft limit of bytes of data")
	f.Int64VarP(&v.limits.BytesHard, "bytes-hard", "B", -1, "hard limit of bytes of data")
	c.MarkFlagsOneRequired("count", "count-hard", "bytes", "bytes-hard")
	return c
}

// check refuses what ZooKeeper's own tools also refuse.
func (v *quotaSet) check(c *cobra.Command) error {
	for _, one := range []struct {
		flag         string
		limit, least int64
	}{{"count", v.limits.Count, 1}, {"count-hard", v.limits.CountHard, 1}, {"bytes", v.limits.Bytes, 0}, {"bytes-hard", v.limits.BytesHard, 0}} {
		if c.Flags().Changed(one.flag) && one.limit < one.least {
			return cli.Usage("remove a limit with conclave quota rm", "--%s %d is less than %d", one.flag, one.limit, one.least)
		}
	}
	return nil
}

func (v *quotaSet) run(ctx context.Context, c *cobra.Command, s *session, chroot, path string) error {
	absolute := under(chroot, path)
	if absolute == zk.SystemPath || strings.HasPrefix(absolute, zk.SystemPath+"/") {
		return cli.Usage("name a znode of your own", "%s belongs to the servers, and is not counted", path)
	}
	if absolute == zk.RootPath {
		return cli.Usage("name a znode below it", "servers keep no quota for the root")
	}
	asking, cancel := s.within(ctx)
	defer cancel()
	if _, err := mustExist(asking, s, absolute); err != nil {
		return err
	}
	if err := alone(ctx, s, absolute); err != nil {
		return err
	}
	if err := v.write(asking, s, absolute); err != nil {
		return err
	}
	now, err := quotaOf(ctx, s, absolute)
	if err != nil {
		return err
	}
	if now.limits.Exceeded(now.usage) {
		fmt.Fprintf(c.ErrOrStderr(), "conclave: %s is beyond a limit already: %d znodes, %d bytes\n", path, now.usage.Count, now.usage.Bytes)
	}
	shown := now.shown(path)
	return s.Answer(shown, func(w io.Writer) error { return quotaTable(w, []limited{shown}) })
}

// alone refuses a path if one above or below it has a quota: ZooKeeper's servers would
// count what is below both for only one of them.
func alone(ctx context.Context, s *session, path string) error {
	const hint = "conclave quota get lists the quotas, conclave quota rm removes one"
	for above := zk.ParentPath(path); above != zk.RootPath; above = zk.ParentPath(above) {
		if _, err := quotaOf(ctx, s, above); err == nil {
			return cli.Failed(fmt.Errorf("%s, above %s, has a quota", above, path), hint)
		} else if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
	}
	own, _ := tree.QuotaZnodes(path)
	at := zk.ParentPath(own)
	err := walk(ctx, s, at, true, func(znode string) error {
		below := strings.TrimPrefix(zk.ParentPath(znode), zk.QuotaPath)
		if limits, _ := tree.QuotaZnodes(below); znode == limits && znode != own {
			return cli.Failed(fmt.Errorf("%s, below %s, has a quota", below, path), hint)
		}
		return nil
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// write creates the two znodes of a quota in one transaction, or changes the limits.
func (v *quotaSet) write(ctx context.Context, s *session, path string) error {
	limits, usage := tree.QuotaZnodes(path)
	now, err := quotaOf(ctx, s, path)
	if err == nil {
		for _, one := range []struct{ to, from *int64 }{
			{&now.limits.Count, &v.limits.Count}, {&now.limits.CountHard, &v.limits.CountHard},
			{&now.limits.Bytes, &v.limits.Bytes}, {&now.limits.BytesHard, &v.limits.BytesHard},
		} {
			if *one.from >= 0 {
				*one.to = *one.from
			}
		}
		_, err := s.Set(ctx, limits, []byte(now.limits.Text()), now.version)
		return err
	}
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if at := zk.ParentPath(limits); at != zk.QuotaPath {
		if _, _, err := s.CreateAll(ctx, at, nil, client.CreateOptions{}); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	_, err = s.Multi(ctx, client.CreateOp(limits, []byte(v.limits.Text()), client.CreateOptions{}),
		client.CreateOp(usage, []byte("count=0,bytes=0"), client.CreateOptions{}))
	return err
}

func newQuotaRm() *cobra.Command {
	var n connection
	var count, countHard, bytes, bytesHard bool
	c := &cobra.Command{
		Use:   "rm PATH",
		Short: "Remove limits",
		Long: `Removes the given limits, or the whole quota of PATH if none is given. PATH need
not exist any more.`,
		Example: `  conclave quota rm /app --bytes-hard
  conclave quota rm /app`,
		Args: takes(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			return n.atRoot(c, func(ctx context.Context, s *session, chroot string) error {
				path := under(chroot, args[0])
				now, err := quotaOf(ctx, s, path)
				if err != nil {
					return noQuota(args[0], err)
				}
				if !count && !countHard && !bytes && !bytesHard {
					return removeQuota(ctx, s, path)
				}
				for limit, gone := range map[*int64]bool{
					&now.limits.Count: count, &now.limits.CountHard: countHard, &now.limits.Bytes: bytes, &now.limits.BytesHard: bytesHard,
				} {
					if gone {
						*limit = -1
					}
				}
				ctx, cancel := s.within(ctx)
				defer cancel()
				limits, _ := tree.QuotaZnodes(path)
				_, err = s.Set(ctx, limits, []byte(now.limits.Text()), now.version)
				return err
			})
		},
	}
	n.add(c)
	f := c.Flags()
	f.BoolVarP(&count, "count", "n", false, "the soft limit of znodes")
	f.BoolVarP(&countHard, "count-hard", "N", false, "the hard limit of znodes")
	f.BoolVarP(&bytes, "bytes", "b", false, "the soft limit of bytes of data")
	f.BoolVarP(&bytesHard, "bytes-hard", "B", false, "the hard limit of bytes of data")
	return c
}

// removeQuota deletes the znodes of a quota, and those above them that have no other
// children.
func removeQuota(ctx context.Context, s *session, path string) error {
	ctx, cancel := s.within(ctx)
	defer cancel()
	limits, usage := tree.QuotaZnodes(path)
	_, err := s.Multi(ctx, client.DeleteOp(limits, -1), client.DeleteOp(usage, -1))
	if errors.Is(err, zk.ErrNoNode) {
		err = s.Delete(ctx, limits, -1) // there was never any usage
	}
	for at := zk.ParentPath(limits); err == nil && at != zk.QuotaPath; at = zk.ParentPath(at) {
		err = s.Delete(ctx, at, -1)
	}
	if errors.Is(err, zk.ErrNotEmpty) {
		return nil
	}
	return err
}
