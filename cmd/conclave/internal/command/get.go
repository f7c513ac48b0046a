package command

import (
	"context"
	"io"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// znode is the content of a znode as JSON.
type znode struct {
	Path string `json:"path"`
	cli.Data
	Stat cli.Stat `json:"stat"`
}

func newGet() *cobra.Command {
	var n connection
	c := &cobra.Command{
		Use:   "get PATH",
		Short: "Print the data of a znode",
		Example: `  conclave get /app/config
  conclave get /app/config -o json`,
		Long: `Prints the data of a znode byte by byte. On a terminal, a line end follows, and
characters that would move the cursor or reverse text are replaced. With -o json,
the metadata is printed as well, and data that is not text is in Base64.`,
		Args: takes(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			return n.session(c, func(ctx context.Context, s *session) error {
				ctx, cancel := s.within(ctx)
				defer cancel()
				data, stat, err := s.Get(ctx, args[0])
				if err != nil {
					return err
				}
				return s.Answer(znode{args[0], cli.NewData(data), cli.NewStat(stat)}, func(w io.Writer) error {
					if cli.IsTerminal(w) {
						data = forTerminal(data)
					}
					_, err := w.Write(data)
					return err
				})
			})
		},
	}
	n.add(c)
	return c
}

// forTerminal returns data as it may be shown on a terminal. Anybody may have written it,
// so it must not contain commands to the terminal.
func forTerminal(data []byte) []byte {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	return []byte(cli.VisibleText(string(data)))
}

// znodeStat is a znode with its metadata as JSON.
type znodeStat struct {
	Path string   `json:"path"`
	Stat cli.Stat `json:"stat"`
}

func newStat() *cobra.Command {
	var n connection
	c := &cobra.Command{
		Use:     "stat PATH",
		Short:   "Print the metadata of a znode",
		Example: `  conclave stat /app/config`,
		Args:    takes(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			return n.session(c, func(ctx context.Context, s *session) error {
				ctx, cancel := s.within(ctx)
				defer cancel()
				stat, err := mustExist(ctx, s, args[0])
				if err != nil {
					return err
				}
				one := znodeStat{args[0], cli.NewStat(stat)}
				return s.Answer(one, one.Stat.Text)
			})
		},
	}
	n.add(c)
	return c
}
