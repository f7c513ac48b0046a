package main

import (
	"context"
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
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/local"
	"github.com/spf13/cobra"
)

// devAsk is what a subcommand asks a running `conclave dev`, as one line of
// JSON; devAnswer is the line that comes back.
type devAsk struct {
	Do  string `json:"do"` // describe, kill, start, cut, heal
	IDs []int  `json:"ids,omitempty"`
}

type devAnswer struct {
	Text    string   `json:"text,omitempty"`
	Error   string   `json:"error,omitempty"`
	Dir     string   `json:"dir"`
	Servers []string `json:"servers"` // where they serve clients
	Down    []int    `json:"down,omitempty"`
	Cuts    [][2]int `json:"cuts,omitempty"`
}

// devControl answers subcommands, on a socket in a directory of this user.
type devControl struct {
	ensemble *local.Ensemble
	news     *devNews
	dir      string
	listener net.Listener
	tasks    sync.WaitGroup

	mu   sync.Mutex // one at a time
	cuts [][2]int
}

// devControlTime bounds one exchange. A kill waits for the next leader.
const (
	devControlTime = 10 * time.Second
	devLeaderTime  = 5 * time.Second
)

// devControlDirs are where the sockets may be, best first: the path of a socket
// must be short, and nobody else may connect.
func devControlDirs() []string {
	var dirs []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		dirs = append(dirs, filepath.Join(dir, "conclave"))
	}
	if dir, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(dir, "conclave", "dev"))
	}
	return append(dirs, filepath.Join(os.TempDir(), fmt.Sprintf("conclave-dev-of-%d", os.Getuid())))
}

func newDevControl(e *local.Ensemble, news *devNews, dir string) (*devControl, error) {
	d := &devControl{ensemble: e, news: news, dir: dir}
	_, port, err := net.SplitHostPort(e.Addr(1))
	if err != nil {
		return nil, err
	}
	if d.listener, err = listenControl(port + ".sock"); err != nil {
		return nil, err
	}
	d.tasks.Go(d.accept)
	return d, nil
}

// listenControl opens a socket in the first directory that allows it. A socket
// of that name is left from a dev that is gone: this one has its port.
func listenControl(name string) (net.Listener, error) {
	var errs []error
	for _, dir := range devControlDirs() {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = os.Chmod(dir, 0o700) // fails in somebody else's directory
		}
		if err == nil {
			path := filepath.Join(dir, name)
			_ = os.Remove(path)
			var l net.Listener
			if l, err = net.Listen("unix", path); err == nil {
				return l, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// close ends the control; the listener removes its socket.
func (d *devControl) close() {
	d.listener.Close()
	d.tasks.Wait()
}

func (d *devControl) accept() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.tasks.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(devControlTime))
			var ask devAsk
			if json.NewDecoder(conn).Decode(&ask) == nil {
				_ = json.NewEncoder(conn).Encode(d.answer(&ask))
			}
		})
	}
}

func (d *devControl) answer(ask *devAsk) devAnswer {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, err := d.do(ask)
	a := devAnswer{Text: text, Dir: d.dir, Servers: d.ensemble.Addrs(), Cuts: d.cuts}
	for id := 1; id <= d.ensemble.Size(); id++ {
		if d.ensemble.Server(id) == nil {
			a.Down = append(a.Down, id)
		}
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func (d *devControl) do(ask *devAsk) (string, error) {
	for _, id := range ask.IDs {
		if id < 1 || id > d.ensemble.Size() {
			return "", fmt.Errorf("there is no server %d: they are numbered 1 to %d", id, d.ensemble.Size())
		}
	}
	switch {
	case ask.Do == "describe":
		return "", nil
	case ask.Do == "kill" && len(ask.IDs) > 0:
		return d.each(ask.IDs, true, "killed", d.ensemble.Kill)
	case ask.Do == "start" && len(ask.IDs) > 0:
		return d.each(ask.IDs, false, "started", d.ensemble.Start)
	case ask.Do == "cut" && len(ask.IDs) == 2:
		return d.cut(ask.IDs[0], ask.IDs[1])
	case ask.Do == "heal":
		return d.heal(), nil
	}
	return "", fmt.Errorf("dev does not know %q with %d servers", ask.Do, len(ask.IDs))
}

// each kills or starts servers, and waits for what follows from it.
func (d *devControl) each(ids []int, kill bool, done string, f func(id int) error) (string, error) {
	_, epoch, _ := d.news.leads()
	var lines []string
	for _, id := range ids {
		line := fmt.Sprintf("server %d %s", id, done)
		if running := d.ensemble.Server(id) != nil; running == kill {
			d.news.did(line, kill, id)
		}
		if err := f(id); err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, d.outcome(epoch, ids)), "\n"), nil
}

func (d *devControl) cut(a, b int) (string, error) {
	line := fmt.Sprintf("servers %d and %d do not hear each other any more", a, b)
	if a != b {
		d.news.did(line, false, a, b)
	}
	if err := d.ensemble.Cut(a, b); err != nil {
		return "", err
	}
	if pair := [2]int{min(a, b), max(a, b)}; !slices.Contains(d.cuts, pair) {
		d.cuts = append(d.cuts, pair)
	}
	return line, nil
}

func (d *devControl) heal() string {
	const line = "all servers hear each other"
	_, epoch, _ := d.news.leads()
	d.news.did(line, false)
	d.ensemble.Heal()
	d.cuts = nil
	return line + "\n" + d.outcome(epoch, nil)
}

// outcome tells who leads, once somebody does and these servers serve if they
// run. Of a leader of the epoch before nothing more is to be told.
func (d *devControl) outcome(before uint32, ids []int) string {
	const nobody = "nobody leads: more than half of the servers must run and hear each other"
	if !d.quorate() {
		return nobody
	}
	ctx, cancel := context.WithTimeout(context.Background(), devLeaderTime)
	defer cancel()
	// A server that is cut off does not serve in time; that is no error.
	_ = d.ensemble.Await(ctx, func() bool {
		leader, _, _ := d.news.leads()
		for _, id := range ids {
			if s := d.ensemble.Server(id); s != nil && !s.Serves() {
				return false
			}
		}
		return leader != 0 && leader == d.ensemble.Leader()
	})
	leader, epoch, line := d.news.leads()
	switch {
	case leader == 0:
		return nobody
	case epoch == before && d.ensemble.Size() > 1:
		return fmt.Sprintf("server %d leads, epoch %d, as before", leader, epoch)
	}
	return line
}

// quorate tells whether enough servers run to elect one of them.
func (d *devControl) quorate() bool {
	voters, running := 0, 0
	for id := 1; id <= d.ensemble.Size(); id++ {
		if !d.ensemble.Votes(id) {
			continue
		}
		voters++
		if d.ensemble.Server(id) != nil {
			running++
		}
	}
	return 2*running > voters
}

// devTarget is the flags that choose among several running devs.
type devTarget struct {
	dir  string
	port int
}

// addDevControls adds the subcommands that ask a running dev.
func addDevControls(parent *cobra.Command) {
	type control struct {
		use, short string
		least      int
		most       int
	}
	for _, k := range []control{
		{"kill ID...", "End servers at once, as a crash does", 1, devServersMax},
		{"start ID...", "Start servers that were killed", 1, devServersMax},
		{"cut ID ID", "Let nothing pass between two servers", 2, 2},
		{"heal", "End all cuts", 0, 0},
	} {
		var t devTarget
		c := &cobra.Command{Use: k.use, Short: k.short, Args: cobra.RangeArgs(k.least, k.most)}
		c.RunE = func(c *cobra.Command, args []string) error {
			ids, err := serverIDs(args)
			if err != nil {
				return err
			}
			a, err := t.ask(devAsk{Do: c.Name(), IDs: ids})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), a.Text)
			return err
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
		Short: "Ask all servers of a running dev how they are",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			a, err := t.ask(devAsk{Do: "describe"})
			if err != nil {
				return err
			}
			all := askAll(c.Context(), a.Servers, timeout)
			for i := range all {
				all[i].ID = strconv.Itoa(i + 1)
				if slices.Contains(a.Down, i+1) {
					all[i].Mode, all[i].Error = "down", ""
				}
			}
			compare(all)
			return p.Answer(all, func(w io.Writer) error {
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

func serverIDs(args []string) ([]int, error) {
	var ids []int
	for _, text := range args {
		id, err := strconv.Atoi(text)
		if err != nil {
			return nil, cli.Usage("servers have the numbers that `conclave dev status` shows", "%q is not the number of a server", text)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// ask finds the running dev that is meant and asks it.
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
		return nil, cli.Failed(errors.New(a.Error), "`conclave dev status` shows the servers")
	}
	return a, nil
}

// find returns the socket of the one dev that runs and is meant.
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
