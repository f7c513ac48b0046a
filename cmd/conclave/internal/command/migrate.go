package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/migrate"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/spf13/cobra"
)

func newMigrate() *cobra.Command {
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Exchange Apache ZooKeeper's servers for Conclave's, and back, while they serve",
		Long: `Exchanges the servers of an ensemble, one at a time: plan says what to do and what
stands in the way, shadow rehearses it, run does it, and back undoes it, however
far it has come.`,
		Example: `  conclave migrate plan --server zk1:2181 --config /etc/zookeeper/zoo.cfg`,
		Args:    takes(0),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newMigratePlan(), newMigrateShadow(), newMigrateRun(), newMigrateBack())
	return c
}

// migrationPlan is the answer of `conclave migrate plan` as JSON.
type migrationPlan struct {
	Servers   []migrationServer `json:"servers"`
	Order     []int64           `json:"order"`     // ids, in the order of the exchange
	Obstacles []string          `json:"obstacles"` // what must change first
	Remarks   []string          `json:"remarks"`   // differences from Apache's server
	Start     string            `json:"start,omitempty"`
}

// migrationServer is what was seen of one server, as JSON.
type migrationServer struct {
	ID       int64  `json:"id"`
	Server   string `json:"server"`
	Kind     string `json:"kind,omitempty"`
	Version  string `json:"version,omitempty"`
	Mode     string `json:"mode,omitempty"`
	Zxid     string `json:"zxid,omitempty"`
	Sessions *int64 `json:"sessions,omitempty"`
	Digests  *int64 `json:"digests,omitempty"` // for how many zxids it remembers a digest
	Error    string `json:"error,omitempty"`
}

// migratePlan is the flags of `conclave migrate plan`.
type migratePlan struct {
	migration
	config string
}

func newMigratePlan() *cobra.Command {
	v := &migratePlan{}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Print the steps of an exchange and its obstacles, and change nothing",
		Long: `Asks the servers for their kind and state, and says in which order to exchange
them. With --config, on the host of a server, it reads that zoo.cfg as Conclave
would, with the Java flags that java.env or zookeeper-env.sh beside it set, looks
at the data directory, and prints how to start Conclave. The scripts are not run:
a line that only a shell understands is an obstacle.

The exit code is 1 if something stands in the way.`,
		Example: `  conclave migrate plan --server zk1:2181
  conclave migrate plan --server zk1:2181 --config /etc/zookeeper/zoo.cfg -o json`,
		Args: takes(0),
		RunE: v.run,
	}
	v.migration.add(c)
	c.Flags().StringVarP(&v.config, "config", "c", "", "zoo.cfg of the server on this host")
	return c
}

func (v *migratePlan) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	ctx, stop := untilInterrupted(c.Context())
	defer stop()
	answer := &migrationPlan{Servers: []migrationServer{}, Order: []int64{}, Obstacles: []string{}, Remarks: []string{}}
	if v.config != "" {
		answer.readConfig(v.config)
	}
	x, err := v.open(ctx, c)
	if err != nil {
		return err
	}
	answer.ask(ctx, x)
	if err := p.Answer(answer, answer.text); err != nil {
		return err
	}
	if len(answer.Obstacles) > 0 {
		return cli.Failed(errors.New(problems(len(answer.Obstacles))+" in the way of an exchange"), "OBSTACLES lists them; nothing was changed")
	}
	return nil
}

// ask asks all servers, and computes the order.
func (a *migrationPlan) ask(ctx context.Context, x *moving) {
	for _, s := range x.look(ctx) {
		one := migrationServer{ID: int64(s.id), Server: s.standing.Server, Kind: string(s.Kind), Version: shortVersion(s.Version),
			Mode: s.standing.Mode, Zxid: s.Zxid, Sessions: integer(s.Sessions), Error: s.Error}
		if s.Serves() {
			digests, err := x.digests(ctx, s.standing.Server)
			if err != nil {
				a.Obstacles = append(a.Obstacles, fmt.Sprintf("%v (%s), or run with --without-digests", err, hintOf(err)))
			} else {
				n := int64(len(digests))
				one.Digests = &n
			}
		}
		if s.Kind == migrate.Apache && !strings.HasPrefix(s.Version, "3.8.") && !strings.HasPrefix(s.Version, "3.9.") {
			a.Obstacles = append(a.Obstacles, fmt.Sprintf("server %d is of version %s: bring Apache's servers to 3.8 or 3.9 first", s.id, one.Version))
		}
		a.Servers = append(a.Servers, one)
	}
	steps, err := migrate.Plan(x.servers(ctx), x.config.Quorum(), migrate.Conclave)
	for _, step := range steps {
		a.Order = append(a.Order, int64(step.Server.ID))
	}
	if err != nil {
		a.Obstacles = append(a.Obstacles, err.Error())
	}
}

func hintOf(err error) string {
	var failed *cli.Error
	if errors.As(err, &failed) {
		return failed.Hint
	}
	return ""
}

// readScripts returns the settings of the scripts beside a zoo.cfg.
func (a *migrationPlan) readScripts(file string) []zoocfg.Entry {
	variables := map[string]string{}
	for _, name := range []string{"zookeeper-env.sh", "java.env"} { // in the order of Apache's zkEnv.sh
		path := filepath.Join(filepath.Dir(file), name)
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			a.Obstacles = append(a.Obstacles, err.Error())
			continue
		}
		script := migrate.ReadScript(path, string(text))
		for _, line := range script.Unread {
			a.Obstacles = append(a.Obstacles, line+": only a shell knows what this sets: write it out, or into zoo.cfg")
		}
		for variable, value := range script.Variables {
			variables[variable] = value
		}
	}
	return zoocfg.Environment(func(name string) string { return variables[name] })
}

// readConfig reads a zoo.cfg with the scripts beside it, and the data directory that it
// names.
func (a *migrationPlan) readConfig(file string) {
	flags := a.readScripts(file)
	a.Start = "conclave serve --config " + quoted(file)
	entries, err := (&serve{config: file}).file()
	if err != nil {
		a.Obstacles = append(a.Obstacles, err.Error())
		return
	}
	for _, e := range zoocfg.Given(flags, entries) {
		if isSecret(e.Key) {
			a.Obstacles = append(a.Obstacles, fmt.Sprintf("%s: %s: every user of the machine can read a command line: write it into zoo.cfg, "+
				"without the prefix zookeeper., for both kinds of server", e.File, e.Key))
			continue
		}
		a.Start += " -D " + quoted(e.Key+"="+e.Value)
	}
	config, err := readEntries(append(flags, entries...))
	if err != nil {
		a.Obstacles = append(a.Obstacles, strings.Split(err.Error(), "\n")...)
		return
	}
	a.Remarks = append(append(a.Remarks, config.Remarks...), config.Notes...)
	a.readDirectory(config)
}

// isSecret reports whether a setting is a password, or something from which one can be
// guessed.
func isSecret(key string) bool {
	key = strings.ToLower(key)
	return strings.HasSuffix(key, "password") || strings.HasSuffix(key, "superdigest")
}

func (a *migrationPlan) text(w io.Writer) error {
	rows := make([][]string, len(a.Servers))
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	for i, s := range a.Servers {
		mode := s.Mode
		if mode == "" {
			mode = "no answer"
		}
		rows[i] = []string{fmt.Sprint(s.ID), s.Server, dash(s.Kind), dash(s.Version), mode, dash(s.Zxid), number(s.Sessions), number(s.Digests)}
	}
	if err := cli.Table(w, []string{"ID", "SERVER", "KIND", "VERSION", "ROLE", "ZXID", "SESSIONS", "DIGESTS"}, rows); err != nil {
		return err
	}
	order := strings.Trim(fmt.Sprint(a.Order), "[]")
	if order == "" {
		order = "none"
	}
	fmt.Fprintf(w, "\nexchange them in this order: %s\n", order)
	if a.Start != "" {
		fmt.Fprintf(w, "here: %s\n", a.Start)
	}
	for _, list := range []struct {
		title string
		lines []string
	}{{"REMARKS", a.Remarks}, {"OBSTACLES", a.Obstacles}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(w, "%s\n  %s\n", list.title, strings.Join(list.lines, "\n  "))
		}
	}
	return nil
}

// migration is the flags of all commands below migrate.
type migration struct {
	connection
	admin adminFlags
	wait  time.Duration
}

func (v *migration) add(c *cobra.Command) {
	v.connection.add(c)
	v.admin.add(c)
	c.ValidArgsFunction = cobra.NoFileCompletions
}

// hostPort splits the address of a server, and refuses one that a shell could take for more
// than a name: it comes from the configuration of the ensemble.
func hostPort(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err == nil && (host == "" || host[0] == '-' || strings.Trim(host+port, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_-%") != "") {
		err = errors.New("it is not the name of a host")
	}
	if err != nil {
		return "", "", fmt.Errorf("the address %q: %w", address, err)
	}
	return host, port, nil
}
