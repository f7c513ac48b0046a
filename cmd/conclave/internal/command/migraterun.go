package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/migrate"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/spf13/cobra"
)

// migrateRun is the flags of `conclave migrate run` and `conclave migrate back`.
type migrateRun struct {
	migration
	to             migrate.Kind
	stop, start    string
	withoutDigests bool
}

const exchangeLong = `Exchanges the servers one at a time: observers first, then followers, then the leader.
A step waits until all others are in sync, is refused if the remaining servers are not
a quorum, stops the server, waits until its port is closed, and starts the other kind
of server. Then it waits until that one serves, has what the leader had, knows as many
sessions as another server, and has the same digest of its tree at a later zxid. If
clients write too little for a digest, sessions are opened and closed until there is
one. After an interruption, the same command continues where the ensemble is; it first
compares the servers that have been exchanged already.

--stop and --start are shell commands that run here; {id}, {host} and {port} (for
clients) in them stand for those of the server. --stop must not return before the
process has ended: two processes must never use one directory. Without these flags,
each step is printed, and the command waits until it sees that somebody has done it.

The exit code is 5 if a digest differs.`

func newMigrateRun() *cobra.Command {
	v := &migrateRun{to: migrate.Conclave}
	return v.command("run", "Exchange Apache's servers for Conclave's", exchangeLong, `  conclave migrate run --server zk1:2181,zk2:2181,zk3:2181
  conclave migrate run --stop 'ssh {host} systemctl stop zookeeper' --start 'ssh {host} systemctl start conclave'`)
}

func newMigrateBack() *cobra.Command {
	v := &migrateRun{to: migrate.Apache}
	return v.command("back", "Exchange Conclave's servers for Apache's", "Undoes an exchange, however far it has come. "+
		"It works like `conclave migrate run`,\nin the other direction: --stop ends Conclave, --start starts Apache's server.",
		`  conclave migrate back --stop 'ssh {host} systemctl stop conclave' --start 'ssh {host} systemctl start zookeeper'`)
}

func (v *migrateRun) command(use, short, long, example string) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: takes(0), RunE: v.run}
	v.migration.add(c)
	c.Flags().StringVar(&v.stop, "stop", "", "`COMMAND` that stops the server {id} on {host} and returns when its process has ended")
	c.Flags().StringVar(&v.start, "start", "", "`COMMAND` that starts the other kind of server there")
	c.Flags().DurationVar(&v.wait, "wait", 10*time.Minute, "how long a server may take to get in sync")
	c.Flags().BoolVar(&v.withoutDigests, "without-digests", false, "do not compare digests, for servers that keep none (zookeeper.digest.enabled=false)")
	return c
}

// exchanged is a finished step, as JSON.
type exchanged struct {
	ID         int64   `json:"id"`
	Server     string  `json:"server"`
	Kind       string  `json:"kind"`
	Mode       string  `json:"mode"`
	Zxid       string  `json:"zxid"`
	Sessions   *int64  `json:"sessions,omitempty"`
	DigestZxid string  `json:"digestZxid,omitempty"` // the last zxid at which its digest was compared
	Seconds    float64 `json:"seconds"`
	Left       int     `json:"left"`
}

func (e *exchanged) text() string {
	text := fmt.Sprintf("server %d (%s) is %s, %s at zxid %s", e.ID, e.Server, e.Kind, e.Mode, e.Zxid)
	if e.Sessions != nil {
		text += fmt.Sprintf(", %d sessions", *e.Sessions)
	}
	if e.DigestZxid != "" {
		text += ", digests equal at " + e.DigestZxid
	}
	return text + fmt.Sprintf("; %.1f s, %d left", e.Seconds, e.Left)
}

func (v *migrateRun) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	if (v.stop == "") != (v.start == "") {
		return cli.Usage("give both, or give neither and do the steps by hand", "--stop and --start belong together")
	}
	ctx, stop := untilInterrupted(c.Context())
	defer stop()
	x, err := v.open(ctx, c)
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		step, err := migrate.Next(x.servers(ctx), x.config.Quorum(), v.to)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var refusal *migrate.Refusal
		if errors.As(err, &refusal) {
			return cli.Failed(err, refusal.Hint)
		}
		if err == nil && first {
			err = v.compareExchanged(ctx, c, x)
		}
		if step == nil || err != nil {
			return err
		}
		done, err := v.step(ctx, c, x, step)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx) // errors of what was in progress then are meaningless
		case err != nil:
			return v.failed(step, err)
		}
		if err := p.Line(done, done.text()); err != nil {
			return err
		}
	}
}

// failed returns an error that says how to continue, or to go back.
func (v *migrateRun) failed(step *migrate.Step, err error) error {
	failed := &cli.Error{Err: fmt.Errorf("server %d: %w", step.Server.ID, err), Exit: cli.ExitFailed}
	var own *cli.Error
	if errors.As(err, &own) {
		failed.Exit, failed.Hint = own.Exit, own.Hint+"; "
	}
	way := "`conclave migrate back` brings all servers back to Apache's"
	if v.to == migrate.Apache {
		way = "`conclave migrate run` brings all servers to Conclave"
	}
	failed.Hint += "the others serve; run the same command to try it again, " + way
	return failed
}

// compareExchanged compares the servers that have been exchanged already: a command that was
// interrupted may not have done so, or have found a difference.
func (v *migrateRun) compareExchanged(ctx context.Context, c *cobra.Command, x *moving) error {
	for _, g := range x.look(ctx) {
		if g.Kind != v.to || !g.Serves() || g.Full { // a server with a full disk is left out, see migrate.Next
			continue
		}
		_, err := x.verify(ctx, x.teller(c, g.id), g.id, v.to, v.wait, !v.withoutDigests)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return v.failed(&migrate.Step{Server: g.Server}, err)
		}
	}
	return nil
}

// teller returns what says something about a server.
func (x *moving) teller(c *cobra.Command, id quorum.ID) func(format string, args ...any) {
	return func(format string, args ...any) {
		fmt.Fprintf(c.ErrOrStderr(), "conclave: server %d (%s): %s\n", id, x.addresses[id], fmt.Sprintf(format, args...))
	}
}

// step exchanges one server.
func (v *migrateRun) step(ctx context.Context, c *cobra.Command, x *moving, step *migrate.Step) (*exchanged, error) {
	began, id := time.Now(), step.Server.ID
	address, say := x.addresses[id], x.teller(c, id)
	if err := x.awaitInSync(ctx, say, id, v.wait, !v.withoutDigests); err != nil {
		return nil, err
	}
	if again, err := migrate.Next(x.servers(ctx), x.config.Quorum(), v.to); err != nil || again == nil || again.Server.ID != id {
		return nil, cli.Failed(errors.New("the ensemble changed while its servers got in sync"), "look at it with conclave status")
	}
	if err := v.halt(ctx, c, x, step, say); err != nil {
		return nil, err
	}
	if v.start == "" {
		say("start %s on its zoo.cfg and directory; waiting until it serves", v.to)
	} else if err := v.shell(ctx, c, v.start, step, address); err != nil {
		return nil, err
	}
	done, err := x.verify(ctx, say, id, v.to, v.limit(), !v.withoutDigests)
	if err != nil {
		return nil, err
	}
	done.Seconds, done.Left = time.Since(began).Seconds(), step.Left
	return done, nil
}

// limit bounds the wait for a server that was started; if a person starts it, there is no
// limit.
func (v *migrateRun) limit() time.Duration {
	if v.start == "" {
		return 1 << 62
	}
	return v.wait
}

// halt has a server stopped, and waits until its port no longer accepts connections.
func (v *migrateRun) halt(ctx context.Context, c *cobra.Command, x *moving, step *migrate.Step, say func(string, ...any)) error {
	address := x.addresses[step.Server.ID]
	switch {
	case !x.listens(ctx, address) && v.stop == "":
		return nil
	case v.stop == "":
		say("stop this %s (%s), and make sure that its process has ended", step.Server.Mode, step.Server.Kind)
	default:
		if err := v.shell(ctx, c, v.stop, step, address); err != nil {
			return err
		}
	}
	return poll(ctx, v.limitOfStop(), say, func() string { return "its port for clients is still open" }, func() (bool, error) { return !x.listens(ctx, address), nil })
}

func (v *migrateRun) limitOfStop() time.Duration {
	if v.stop == "" {
		return 1 << 62
	}
	return v.wait
}

// shell runs one of the operator's commands for a server.
func (v *migrateRun) shell(ctx context.Context, c *cobra.Command, template string, step *migrate.Step, address string) error {
	host, port, err := hostPort(address)
	if err != nil {
		return err
	}
	line := strings.NewReplacer("{id}", strconv.FormatInt(int64(step.Server.ID), 10), "{host}", host, "{port}", port).Replace(template)
	command := exec.CommandContext(ctx, "sh", "-c", line)
	command.Stdout, command.Stderr = c.ErrOrStderr(), c.ErrOrStderr()
	if err := command.Run(); err != nil {
		return fmt.Errorf("run %q: %w", line, err)
	}
	return nil
}

// sayAfter is how long poll waits before it reports anything.
const sayAfter = 10 * time.Second

// poll calls condition until it is true. otherwise returns what is still wrong: it is
// reported after a while, and is the error when the limit is over.
func poll(ctx context.Context, limit time.Duration, say func(string, ...any), otherwise func() string, condition func() (bool, error)) error {
	ending, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	told := time.After(sayAfter)
	for {
		if is, err := condition(); is || err != nil {
			return err
		}
		select {
		case <-ending.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("not within %v: %s", limit, otherwise())
		case <-told:
			say("still waiting: %s", otherwise())
		case <-time.After(lookEvery):
		}
	}
}
