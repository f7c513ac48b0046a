package command

import (
	"fmt"
	"os"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write man pages of all commands into a directory",
		Args:  takes(0, "DIR"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return cli.Failed(fmt.Errorf("write man pages: %w", err), "name a directory that can be written")
			}
			header := &doc.GenManHeader{Title: "CONCLAVE", Section: "1", Source: "conclave " + version}
			if err := doc.GenManTree(c.Root(), header, args[0]); err != nil {
				return cli.Failed(fmt.Errorf("write man pages: %w", err), "name a directory that can be written")
			}
			return nil
		},
	}
}
