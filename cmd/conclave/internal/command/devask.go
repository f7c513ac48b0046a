package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// devTarget is the flags that choose one of several running devs.
type devTarget struct {
	dir  string
	port int
}

// addDevControls adds the subcommands that send requests to a running dev.
func addDevControls(parent *cobra.Command) {
	type control struct {
		use, short, example string

		ids  []string // required arguments
		more int      // how many more are allowed
	}
	for _, k := range []control{
		{"kill ID...", "End servers at once, as a crash does; \"leader\" is the one that leads", "  conclave dev kill leader\n  conclave dev kill 1 2", []string{"ID"}, devServersMax - 1},
		{"start ID...", "Start servers that were killed", "  conclave dev start 1 2", []string{"ID"}, devServersMax - 1},
		{"cut ID ID", "Let nothing pass between two servers", "  conclave dev cut 1 3", []string{"ID", "ID"}, 0},
		{"heal", "End all cuts", "  conclave dev heal", nil, 0},
	} {
		var t devTarget
		c := &cobra.Command{Use: k.use, Short: k.short, Args: takes(k.more, k.ids...),
			ValidArgsFunction: t.completeIDs, Example: k.example}
		c.RunE = func(c *cobra.Command, args []string) error {
			ids, err := serverIDs(args)
			if err != nil {
				return err
			}
			a, err := t.ask(devAsk{Do: c.Name(), IDs: ids})
			if a == nil || a.Text == "" && err != nil {
				return err
			}
			_, bad := fmt.Fprintln(c.OutOrStdout(), a.Text)
			return cmp.Or(err, bad)
		}
		t.add(c)
		parent.AddCommand(c)
	}
	parent.AddCommand(newDevStatus())
}

func newDevStatus() *cobra.Command {
	var t devTarget
	var output outputFlag
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "status",
		Short: "Show the state of all servers of a running dev",
		Example: `  conclave dev status
  conclave dev status --port 2181 -o json`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			a, err := t.ask(devAsk{Do: "describe"})
			if err != nil {
				return err
			}
			all := askAll(c.Context(), asker{}, a.Servers, timeout)
			for i := range all {
				all[i].ID = strconv.Itoa(i + 1)
				if slices.Contains(a.Down, i+1) {
					all[i].Mode, all[i].Error = "down", ""
				}
			}
			compare(all)
			return p.Answer(answers(all), func(w io.Writer) error {
				if err := statusTable(w, all); err != nil {
					return err
				}
				for _, cut := range a.Cuts {
					fmt.Fprintf(w, "cut: %d %d\n", cut[0], cut[1])
				}
				return nil
			})
		},
	}
	t.add(c)
	output.add(c)
	c.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for each server")
	return c
}

func (t *devTarget) add(c *cobra.Command) {
	c.Flags().StringVar(&t.dir, "dir", "", "the dev that keeps its data there, if several run")
	c.Flags().IntVar(&t.port, "port", 0, "the dev that has this client port, if several run")
}

// completeIDs offers the servers that are not named yet: for start those that are down,
// otherwise those that run, and "leader" for the one that leads.
func (t *devTarget) completeIDs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	a, err := t.ask(devAsk{Do: "describe"})
	if err != nil || c.Name() == "heal" || c.Name() == "cut" && len(args) == 2 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for i := range a.Servers {
		down := slices.Contains(a.Down, i+1)
		if id := strconv.Itoa(i + 1); !slices.Contains(args, id) && down == (c.Name() == "start") {
			ids = append(ids, id)
		}
	}
	if c.Name() == "kill" && !slices.Contains(args, "leader") {
		ids = append(ids, "leader")
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// serverIDs parses numbers of servers, and "leader".
func serverIDs(args []string) ([]int, error) {
	var ids []int
	for _, text := range args {
		if text == "leader" {
			ids = append(ids, leaderID)
			continue
		}
		id, err := strconv.Atoi(text)
		if err != nil {
			return nil, cli.Usage("servers have the numbers that `conclave dev status` shows", "%q is not the number of a server", text)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// ask finds the running dev and sends it the request. With an error, the answer says what
// was done, if anything.
func (t *devTarget) ask(ask devAsk) (*devAnswer, error) {
	path, err := t.find()
	if err != nil {
		return nil, err
	}
	a, err := exchange(path, &ask)
	if err != nil {
		return nil, cli.Failed(fmt.Errorf("ask the running dev: %w", err), "it may have ended just now: look at its terminal")
	}
	if a.Error != "" {
		return a, cli.Failed(errors.New(a.Error), "`conclave dev status` shows the servers")
	}
	return a, nil
}

// find returns the socket of the running dev that the flags choose.
func (t *devTarget) find() (string, error) {
	var paths, names []string
	dir := t.dir
	if dir != "" {
		var err error
		if dir, err = filepath.Abs(dir); err != nil {
			return "", err
		}
	}
	for _, place := range devControlDirs() {
		sockets, _ := filepath.Glob(filepath.Join(place, "*.sock"))
		for _, path := range sockets {
			a, err := exchange(path, &devAsk{Do: "describe"})
			if errors.Is(err, syscall.ECONNREFUSED) {
				_ = os.Remove(path) // it belongs to a dev that was killed
			}
			if err != nil || dir != "" && a.Dir != dir || t.port != 0 && !hasPort(a.Servers, t.port) {
				continue
			}
			paths, names = append(paths, path), append(names, a.Servers[0])
		}
	}
	switch len(paths) {
	case 1:
		return paths[0], nil
	case 0:
		return "", &cli.Error{Err: errors.New("no such `conclave dev` is running"), Exit: cli.ExitNoServer,
			Hint: "start one with `conclave dev` in another terminal, as the same user"}
	}
	return "", cli.Usage("say which one with --port or --dir", "several run: their first servers are %s", strings.Join(names, ", "))
}

func hasPort(addrs []string, port int) bool {
	for _, addr := range addrs {
		if _, p, err := net.SplitHostPort(addr); err == nil && p == strconv.Itoa(port) {
			return true
		}
	}
	return false
}

func exchange(path string, ask *devAsk) (*devAnswer, error) {
	conn, err := net.DialTimeout("unix", path, devControlTime)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(devControlTime)); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(conn).Encode(ask); err != nil {
		return nil, err
	}
	var a devAnswer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return nil, err
	}
	if len(a.Servers) == 0 {
		return nil, errors.New("it answers something else")
	}
	return &a, nil
}
