package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// armed is one watch as JSON.
type armed struct {
	Path    string `json:"path"`
	Session string `json:"session"`
	Server  string `json:"server"`
}

// watchSum has the numbers of watches of one server, as JSON.
type watchSum struct {
	Server      string `json:"server"`
	Connections int64  `json:"connections"`
	Paths       int64  `json:"paths"`
	Watches     int64  `json:"watches"`
}

// watchList is the flags of `conclave watches`.
type watchList struct {
	inspecting
	session string
	count   bool
}

func newWatches() *cobra.Command {
	v := &watchList{}
	c := &cobra.Command{
		Use:   "watches [PREFIX]",
		Short: "List who watches which znodes",
		Example: `  conclave watches /app
  conclave watches --count`,
		Long: `Lists the watches whose paths begin with the characters of PREFIX: the path, the
session that set the watch, and the server that keeps it, which is the one that the
client is connected to. As in ZooKeeper, these are watches of data and of
existence, including persistent ones; watches of children only are not reported.
--count prints only how many there are.

Each server is asked for wchp, or wchs with --count, by four-letter word or on its
admin port. One of the two ways must be allowed in zoo.cfg: 4lw.commands.whitelist
or admin.enableServer=true. Servers copy all their watches to answer.`,
		Args: takes(1),
		RunE: v.run,
	}
	v.add(c)
	c.Flags().StringVar(&v.session, "session", "", "only those of this session, as 0x100...")
	c.Flags().BoolVar(&v.count, "count", false, "print how many there are on each server")
	c.MarkFlagsMutuallyExclusive("session", "count")
	return c
}

func (v *watchList) run(c *cobra.Command, args []string) error {
	wanted, err := wantedSession(v.session)
	if err == nil {
		err = aboveZnodes(args)
	}
	if err != nil {
		return err
	}
	if v.count && len(args) > 0 {
		return cli.Usage("leave out PREFIX or --count", "--count counts all watches")
	}
	i, p, err := v.open(c)
	if err != nil {
		return err
	}
	if v.count {
		sums := make([]watchSum, len(i.servers))
		problems := i.each(c.Context(), func(at int, server string) question {
			sums[at].Server = server
			return question{"wchs", "watch_summary", sums[at].text, sums[at].json}
		})
		if err := errors.Join(problems...); err != nil {
			return err
		}
		return p.Answer(sums, func(w io.Writer) error { return watchSumTable(w, sums) })
	}
	all, left, err := i.watches(c.Context(), strings.Join(args, ""), func(id zk.SessionID) bool { return v.session == "" || id == wanted })
	if err != nil {
		return err
	}
	err = p.Answer(all, func(w io.Writer) error {
		rows := make([][]string, len(all))
		for i, one := range all {
			rows[i] = []string{one.Session, one.Server, one.Path}
		}
		return cli.Table(w, []string{"SESSION", "SERVER", "PATH"}, rows)
	})
	if err == nil && left > 0 {
		err = fmt.Errorf("%d watches are left out: a server lists %d MiB of paths at most; --count counts all", left, admin.PathsMax>>20)
	}
	return err
}

// watches asks all servers for the watches below a prefix of some sessions. It also returns
// how many watches, of any session and path, did not fit into the servers' lists.
func (i *inspector) watches(ctx context.Context, prefix string, wanted func(zk.SessionID) bool) (all []armed, left int, err error) {
	parts, without := make([][]armed, len(i.servers)), make([]int, len(i.servers))
	problems := i.each(ctx, func(at int, server string) question {
		put := func(path string, id zk.SessionID) {
			if wanted(id) && strings.HasPrefix(path, prefix) {
				parts[at] = append(parts[at], armed{path, id.String(), server})
			}
		}
		return question{"wchp", "watches_by_path", func(answer string) { without[at] = watchesOf(answer, put) },
			func(fields map[string]json.RawMessage) (err error) {
				without[at], err = watchFields(fields, put)
				return err
			}}
	})
	if err := errors.Join(problems...); err != nil {
		return nil, 0, err
	}
	for _, n := range without {
		left += n
	}
	all = append([]armed{}, slices.Concat(parts...)...)
	sortBy(all, func(a, b armed) int { return strings.Compare(a.Path, b.Path) })
	return all, left, nil
}

// watchesOf parses paths, each followed by lines with its sessions, and how many watches
// were left out. Only the last line can say that: a path may be any text, but it has lines
// after it.
func watchesOf(answer string, put func(path string, id zk.SessionID)) (left int) {
	path := ""
	for line := range strings.Lines(answer) {
		line = strings.TrimRight(line, "\n")
		digits, below := strings.CutPrefix(line, "\t")
		id, err := sessionNumber(digits)
		switch {
		case below && err == nil:
			put(path, id)
			left = 0
		case below:
		case line != "":
			path, left = line, 0
			if count, ends := strings.CutPrefix(line, admin.LeftOut); ends {
				_, _ = fmt.Sscan(count, &left)
			}
		}
	}
	return left
}

// watchFields parses the same in the answer of an admin server.
func watchFields(fields map[string]json.RawMessage, put func(path string, id zk.SessionID)) (left int, err error) {
	var byPath map[string][]json.RawMessage
	if err := field(fields, "path_to_session_ids", &byPath); err != nil {
		return 0, err
	}
	if _, some := fields["left_out"]; some {
		if err := field(fields, "left_out", &left); err != nil {
			return 0, err
		}
	}
	for path, ids := range byPath {
		for _, text := range ids {
			id, err := sessionNumber(string(text))
			if err != nil {
				return 0, err
			}
			put(path, id)
		}
	}
	return left, nil
}

// text parses "1 connections watching 2 paths\nTotal watches:2".
func (s *watchSum) text(answer string) {
	_, _ = fmt.Sscanf(answer, "%d connections watching %d paths\nTotal watches:%d", &s.Connections, &s.Paths, &s.Watches)
}

func (s *watchSum) json(fields map[string]json.RawMessage) error {
	return errors.Join(field(fields, "num_connections", &s.Connections), field(fields, "num_paths", &s.Paths),
		field(fields, "num_total_watches", &s.Watches))
}

func watchSumTable(w io.Writer, sums []watchSum) error {
	rows := make([][]string, len(sums))
	for i, s := range sums {
		rows[i] = []string{s.Server, strconv.FormatInt(s.Connections, 10), strconv.FormatInt(s.Paths, 10), strconv.FormatInt(s.Watches, 10)}
	}
	return cli.Table(w, []string{"SERVER", "CONNECTIONS", "PATHS", "WATCHES"}, rows)
}
