package command

import (
	"context"
	"fmt"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// watched is one event as JSON.
type watched struct {
	Time string `json:"time"`
	Type string `json:"type"`
	Path string `json:"path"`
	Zxid string `json:"zxid,omitempty"`
}

func newWatch() *cobra.Command {
	var n connection
	var recursive bool
	var count int
	c := &cobra.Command{
		Use:   "watch PATH",
		Short: "Print what happens to a znode until interrupted",
		Example: `  conclave watch /app/config
  conclave watch -r /app -o json`,
		Long: `Prints one line for each event. The znode need not exist. The event None means
that events may be missing at this point, because the connection was lost.`,
		Args: takes(0, "PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			if count < 0 {
				return cli.Usage("write -n 5 for five events", "--count %d is negative", count)
			}
			mode := zk.WatchPersistent
			if recursive {
				mode = zk.WatchPersistentRecursive
			}
			return n.session(c, func(ctx context.Context, s *session) error {
				return watch(ctx, s, args[0], mode, count, func() {
					fmt.Fprintf(c.ErrOrStderr(), "watching %s\n", args[0])
				})
			})
		},
	}
	n.add(c)
	c.Flags().BoolVarP(&recursive, "recursive", "r", false, "watch everything below PATH as well")
	c.Flags().IntVarP(&count, "count", "n", 0, "stop after N events")
	return c
}

func watch(ctx context.Context, s *session, path string, mode zk.WatchMode, count int, started func()) error {
	asking, cancel := s.within(ctx)
	w, err := s.Watch(asking, path, mode)
	cancel()
	if err != nil {
		return err
	}
	defer w.Close()
	started()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-w.Events():
			if !ok {
				return fmt.Errorf("watch %s: %w", path, w.Err())
			}
			if err := printEvent(s, event); err != nil || n == count {
				return err
			}
		}
	}
}

func printEvent(s *session, event zk.Event) error {
	one := watched{Time: cli.Time(time.Now().UnixMilli()), Type: event.Type.String(), Path: event.Path}
	if event.Zxid != zk.NoZxid && event.Zxid != 0 {
		one.Zxid = event.Zxid.String()
	}
	return s.Line(one, fmt.Sprintf("%s %s %s", one.Time, one.Type, cli.Visible(one.Path)))
}
