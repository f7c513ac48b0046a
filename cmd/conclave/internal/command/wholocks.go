package command

import (
	"context"
	"io"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// contender holds a lock or waits for it, as JSON.
type contender struct {
	Path    string `json:"path"`
	Holds   bool   `json:"holds"`
	Session string `json:"session,omitempty"`
	Client  string `json:"client,omitempty"`
	Server  string `json:"server,omitempty"`
	Since   string `json:"since"`

	sequence int32
	shares   bool // a reader's share of a lock
}

// whoLocks is the flags of `conclave who-locks`.
type whoLocks struct {
	connection
	inspection
}

func newWhoLocks() *cobra.Command {
	v := &whoLocks{}
	c := &cobra.Command{
		Use:   "who-locks PATH",
		Short: "Print who holds a lock and who waits for it",
		Example: `  conclave who-locks /locks/nightly
  conclave who-locks /conclave/elections/billing/nightly`,
		Long: `Lists the sequential znodes in the directory of a lock or an election, as Curator,
kazoo and Conclave's client create them, in order of their numbers. The first one
holds the lock; of a read-write lock, all readers before the first writer hold it.
The list shows since when each znode exists, which session owns it, and, if the
servers report it (cons, by four-letter word or on the admin port), where its client
is connected. If PATH itself is ephemeral, it is the lock.`,
		Args: takes(0, "PATH"),
		RunE: v.run,
	}
	v.connection.add(c)
	v.inspection.add(c)
	return c
}

func (v *whoLocks) run(c *cobra.Command, args []string) error {
	return v.session(c, func(ctx context.Context, s *session) error {
		all, err := contenders(ctx, s, args[0])
		if err != nil {
			return err
		}
		if len(all) > 0 {
			if err := v.locate(c, all); err != nil {
				return err
			}
		}
		return s.Answer(all, func(w io.Writer) error {
			rows := make([][]string, len(all))
			for i, one := range all {
				does := "waits"
				if one.Holds {
					does = "holds"
				}
				rows[i] = []string{does, dash(one.Session), dash(one.Client), dash(one.Server), one.Since, one.Path}
			}
			return cli.Table(w, []string{"DOES", "SESSION", "CLIENT", "SERVER", "SINCE", "ZNODE"}, rows)
		})
	})
}

// locate finds out where the clients are.
func (v *whoLocks) locate(c *cobra.Command, all []contender) error {
	store, options, err := v.options()
	if err != nil {
		return err
	}
	i, err := v.find(c, store, options.Dialer, v.timeout)
	if err != nil {
		return err
	}
	connections := i.connections(c.Context())
	for at := range all {
		for id, one := range connections {
			if id.String() == all[at].Session {
				all[at].Client, all[at].Server = one.Client, one.Server
			}
		}
	}
	return nil
}

// contenders returns the contenders of one directory, in order.
func contenders(ctx context.Context, s *session, dir string) ([]contender, error) {
	asking, cancel := s.within(ctx)
	defer cancel()
	stat, err := mustExist(asking, s, dir)
	if err != nil {
		return nil, err
	}
	if stat.EphemeralOwner != 0 {
		return []contender{newContender(dir, stat, true)}, nil
	}
	names, err := children(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	all := []contender{}
	for _, name := range names {
		sequence, ok := sequenceOf(name)
		if !ok {
			continue
		}
		asking, cancel := s.within(ctx)
		stat, found, err := s.Exists(asking, join(dir, name))
		cancel()
		if err != nil {
			return nil, err
		}
		if found {
			one := newContender(join(dir, name), stat, false)
			one.sequence, one.shares = sequence, strings.Contains(name, "__READ__") || strings.Contains(name, "__rlock__")
			all = append(all, one)
		}
	}
	// The server's counter wraps around, and so does the difference.
	sortBy(all, func(a, b contender) int { return int(a.sequence - b.sequence) })
	for i := range all {
		all[i].Holds = i == 0 || all[i].shares && all[i-1].Holds && all[i-1].shares
	}
	return all, nil
}

// sequenceOf returns the number at the end of a name; false if there is none. A number
// below zero may have an eleventh character.
func sequenceOf(name string) (int32, bool) {
	at := len(name) - zk.SequenceDigits
	if at > 1 && name[at-1] == '-' && (name[at-2] == '-' || name[at-2] == '_') {
		at--
	}
	if at < 0 {
		return 0, false
	}
	return zk.ParseSequence(name[at:])
}

func newContender(path string, stat zk.Stat, holds bool) contender {
	return contender{Path: path, Holds: holds, Session: cli.Owner(stat), Since: cli.Time(stat.Ctime)}
}
