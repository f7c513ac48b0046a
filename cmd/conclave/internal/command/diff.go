package command

import (
	"fmt"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// differing holds the flags of `conclave diff`.
type differing struct {
	outputFlag
	settings fileSettings
	keys     backupKeys
	path     string
	stats    bool
}

func newDiff() *cobra.Command {
	v := &differing{}
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Print in which znodes two states differ",
		Long: `Loads two states and prints each znode that is only in B (+), only in A (-), or
in both with different data or a different ACL (~). A and B are each a backup, a
backup at a moment (BACKUP@0x1b0, BACKUP@2026-11-24T10:00:00Z), a data directory,
or a snapshot.* in one. A snapshot by itself may hold part of what came after it,
because a server replays the log over it. dataLogDir of --config only counts for
its own dataDir. Both states are held in memory.

The exit code is 4 if they differ.`,
		Example: `  conclave diff /backup@2026-11-24T10:00:00Z /backup --path /app
  conclave diff /var/lib/zookeeper /mnt/other/zookeeper`,
		Args: takes(0, "A", "B"),
		RunE: v.run,
	}
	v.outputFlag.add(c)
	v.settings.add(c)
	v.keys.addReading(c)
	c.Flags().StringVar(&v.path, "path", "/", "only this znode and those below it")
	c.Flags().BoolVar(&v.stats, "stats", false, "also those of which only versions or times differ")
	return c
}

// difference is one line of `conclave diff` as JSON.
type difference struct {
	Change      string `json:"change"` // added, removed, changed
	Path        string `json:"path"`
	Data        bool   `json:"data,omitempty"`
	ACL         bool   `json:"acl,omitempty"`
	MadeAgain   bool   `json:"madeAgain,omitempty"`
	BytesA      *int   `json:"bytesA,omitempty"`
	BytesB      *int   `json:"bytesB,omitempty"`
	VersionA    *int32 `json:"versionA,omitempty"`
	VersionB    *int32 `json:"versionB,omitempty"`
	ModifiedAtB string `json:"modifiedB,omitempty"`
}

func (v *differing) run(c *cobra.Command, args []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	if err := zk.ValidatePath(v.path); err != nil {
		return cli.Usage("write for example --path /app", "--path %q is not the path of a znode", v.path)
	}
	end := whileDoing(c, "loading")
	defer end()
	a, err := loadTree(c.Context(), &v.settings, &v.keys, args[0], c.ErrOrStderr())
	if err != nil {
		return err
	}
	b, err := loadTree(c.Context(), &v.settings, &v.keys, args[1], c.ErrOrStderr())
	if err != nil {
		return err
	}
	end()
	n := 0
	for _, d := range backup.Compare(a, b, v.path) {
		if d.Stat && !v.stats {
			continue
		}
		n++
		one := newDifference(&d)
		if err := p.Line(one, one.text()); err != nil {
			return err
		}
	}
	if n > 0 {
		return &exitError{code: cli.ExitNotFound}
	}
	return nil
}

func newDifference(d *backup.Difference) difference {
	one := difference{Change: "changed", Path: d.Path, Data: d.Data, ACL: d.ACL, MadeAgain: d.Made}
	if d.Before == nil {
		one.Change = "added"
	} else {
		n := len(d.Before.Data)
		one.BytesA, one.VersionA = &n, &d.Before.Stat.Version
	}
	if d.After == nil {
		one.Change = "removed"
	} else {
		n := len(d.After.Data)
		one.BytesB, one.VersionB, one.ModifiedAtB = &n, &d.After.Stat.Version, cli.Time(d.After.Stat.Mtime)
	}
	return one
}

func (d *difference) text() string {
	sign := map[string]string{"added": "+", "removed": "-", "changed": "~"}[d.Change]
	fields := []string{sign, cli.Visible(d.Path)}
	switch {
	case d.BytesA == nil:
		fields = append(fields, fmt.Sprintf("%d bytes, of %s", *d.BytesB, d.ModifiedAtB))
	case d.BytesB == nil:
		fields = append(fields, fmt.Sprintf("%d bytes", *d.BytesA))
	default:
		fields = append(fields, fmt.Sprintf("%d to %d bytes, version %d to %d, of %s", *d.BytesA, *d.BytesB, *d.VersionA, *d.VersionB, d.ModifiedAtB))
		if d.ACL {
			fields = append(fields, "another ACL")
		}
		if d.MadeAgain {
			fields = append(fields, "made again")
		}
	}
	return strings.Join(fields, " ")
}
