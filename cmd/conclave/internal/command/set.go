package command

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

func newSet() *cobra.Command {
	var n connection
	var version int32
	c := &cobra.Command{
		Use:   "set PATH DATA",
		Short: "Replace the data of a znode",
		Example: `  conclave set /app/config '{"workers": 5}' --version 3
  conclave set /app/config - <config.json`,
		Long: "Replaces the data of a znode. If DATA is -, it is read from standard input.",
		Args: takes(0, "PATH", "DATA"),
		RunE: func(c *cobra.Command, args []string) error {
			data, err := readData(c, args[1])
			if err != nil {
				return err
			}
			return n.session(c, func(ctx context.Context, s *session) error {
				ctx, cancel := s.within(ctx)
				defer cancel()
				stat, err := s.Set(ctx, args[0], data, version)
				if err != nil {
					return err
				}
				return s.Answer(znodeStat{args[0], cli.NewStat(stat)}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s version %d\n", args[0], stat.Version)
					return err
				})
			})
		},
	}
	n.add(c)
	c.Flags().Int32Var(&version, "version", -1, "only if the data has this version")
	return c
}

// dataBytesMax is more than any server accepts.
const dataBytesMax = 1 << 30

// readData returns the argument, or the standard input for "-".
func readData(c *cobra.Command, argument string) ([]byte, error) {
	if argument != "-" {
		return []byte(argument), nil
	}
	data, err := io.ReadAll(io.LimitReader(c.InOrStdin(), dataBytesMax))
	if err != nil {
		return nil, fmt.Errorf("read the data: %w", err)
	}
	return data, nil
}

// create is the flags of `conclave create`.
type create struct {
	connection
	ephemeral, sequential, container, parents bool
	ttl                                       time.Duration
	acl                                       string
}

func newCreate() *cobra.Command {
	v := &create{}
	c := &cobra.Command{
		Use:   "create PATH [DATA]",
		Short: "Create a znode",
		Example: `  conclave create /app/config '{"workers": 4}' -p
  conclave create /app/queue/task- -S
  conclave create /app/here -e        # as long as it runs`,
		Long: `Creates a znode and prints its path. If DATA is -, it is read from standard input.

An ephemeral znode lives as long as the session that created it: the command
prints the path and then runs until it is interrupted.`,
		Args: takes(1, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			options, err := v.options()
			if err == nil && v.ttl <= 0 && c.Flags().Changed("ttl") {
				err = cli.Usage("leave it out for a znode that stays", "--ttl %v is not a time to live", v.ttl)
			}
			if err != nil {
				return err
			}
			data := []byte{}
			if len(args) == 2 {
				if data, err = readData(c, args[1]); err != nil {
					return err
				}
			}
			return v.session(c, func(ctx context.Context, s *session) error { return v.run(ctx, s, args[0], data, options) })
		},
	}
	v.add(c)
	c.Flags().BoolVarP(&v.ephemeral, "ephemeral", "e", false, "deleted when the session of this command ends")
	c.Flags().BoolVarP(&v.sequential, "sequential", "S", false, "the server appends a number to the name")
	c.Flags().BoolVarP(&v.container, "container", "c", false, "deleted some time after its last child is deleted")
	c.Flags().DurationVar(&v.ttl, "ttl", 0, "deleted if unchanged and childless for this long")
	c.Flags().BoolVarP(&v.parents, "parents", "p", false, "create missing parents")
	c.Flags().StringVar(&v.acl, "acl", "", "who may do what, as world:anyone:cdrwa or auth::cdrwa")
	c.MarkFlagsMutuallyExclusive("ephemeral", "container", "ttl")
	c.MarkFlagsMutuallyExclusive("sequential", "container")
	return c
}

func (v *create) options() (client.CreateOptions, error) {
	o := client.CreateOptions{TTL: v.ttl}
	switch {
	case v.container:
		o.Mode = zk.Container
	case v.ttl != 0 && v.sequential:
		o.Mode = zk.PersistentSequentialTTL
	case v.ttl != 0:
		o.Mode = zk.PersistentTTL
	case v.ephemeral && v.sequential:
		o.Mode = zk.EphemeralSequential
	case v.ephemeral:
		o.Mode = zk.Ephemeral
	case v.sequential:
		o.Mode = zk.PersistentSequential
	}
	var err error
	if v.acl != "" {
		o.ACL, err = cli.ParseACL(v.acl)
	}
	return o, err
}

func (v *create) run(ctx context.Context, s *session, path string, data []byte, o client.CreateOptions) error {
	createIt := s.Create
	if v.parents {
		createIt = s.CreateAll
	}
	asking, cancel := s.within(ctx)
	defer cancel()
	created, stat, err := createIt(asking, path, data, o)
	if err != nil {
		return err
	}
	err = s.Line(znodeStat{created, cli.NewStat(stat)}, created)
	if err != nil || !v.ephemeral {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.Done():
		return fmt.Errorf("keep %s: %w", created, s.Err())
	}
}

// mustExist returns the stat of a znode, or ErrNoNode.
func mustExist(ctx context.Context, s *session, path string) (zk.Stat, error) {
	stat, found, err := s.Exists(ctx, path)
	if err == nil && !found {
		err = &client.Error{Op: zk.OpExists, Path: path, Err: zk.ErrNoNode, Outcome: client.NotApplied}
	}
	return stat, err
}
