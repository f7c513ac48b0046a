package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// reconfig is the flags of `conclave reconfig`.
type reconfig struct {
	connection
	add, remove, promote, demote []string
	file, version                string
	dry, force                   bool
	wait                         time.Duration
}

func newReconfig() *cobra.Command {
	v := &reconfig{}
	c := &cobra.Command{
		Use:   "reconfig",
		Short: "Change the servers of an ensemble while it serves",
		Long: `Changes which servers the ensemble has, and which of them vote. It prints the
configuration before and after, and asks each server of the new one for its state:
a server is in sync if it follows the leader, has the configuration in force, and
reaches everything that was committed when the command began. If the servers in
sync are not a quorum of the new configuration, nothing is proposed; --force
leaves the decision to the ensemble, which checks its own links. The change is
refused if the configuration is no longer the one that was printed. After the
change, the command waits until it is in force on all servers.

A server that will join must already be running, with a configuration that names
the others and itself; it follows without a vote until then. A server that was
removed keeps running and serves nobody: stop it.

The servers need reconfigEnabled=true, and the client needs permission to write
/zookeeper/config: as super user, or because the super user granted it with
conclave acl set. Over TLS, a server can only be asked if --server names it.`,
		Example: `  conclave reconfig --add 'server.4=zk4:2888:3888:observer;2181' --dry-run
  conclave reconfig --promote 4 --auth digest:super:secret
  conclave reconfig --remove 3 --add 'server.5=zk5:2888:3888;2181'
  conclave reconfig --file zoo.cfg.dynamic`,
		Args: takes(0),
		RunE: v.run,
	}
	v.connection.add(c)
	f := c.Flags()
	f.StringArrayVar(&v.add, "add", nil, "`LINE` of a server that joins or changes its addresses: server.4=host:2888:3888:observer;2181; may be repeated")
	f.StringSliceVar(&v.remove, "remove", nil, "`IDS` of servers that leave")
	f.StringSliceVar(&v.promote, "promote", nil, "`IDS` of observers to make participants")
	f.StringSliceVar(&v.demote, "demote", nil, "`IDS` of participants to make observers")
	f.StringVar(&v.file, "file", "", "`FILE` with the whole new ensemble, as a dynamic configuration file; - is standard input")
	f.StringVar(&v.version, "version", "", "`HEX`: only if the configuration in force has this version")
	f.BoolVar(&v.dry, "dry-run", false, "print and check the change, but do not propose it")
	f.BoolVar(&v.force, "force", false, "propose the change even if the servers in sync are not a quorum of the new configuration")
	f.DurationVar(&v.wait, "wait", time.Minute, "how long to wait until the change is in force on all servers; 0 does not wait")
	for _, one := range []string{"add", "remove", "promote", "demote"} {
		c.MarkFlagsMutuallyExclusive("file", one)
	}
	c.MarkFlagsOneRequired("file", "add", "remove", "promote", "demote")
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}

// changePlan is a change of an ensemble as JSON: the current and the new configuration, and
// what was seen.
type changePlan struct {
	Before  configured `json:"before"`
	After   configured `json:"after"` // its version is that of the ensemble once it is in force, otherwise 0
	Servers []looked   `json:"servers"`
	Quorum  bool       `json:"quorum"` // the servers in sync are a quorum of the new configuration
	Applied bool       `json:"applied"`

	change        client.Change
	current, next *ensemble.Config
}

func (v *reconfig) run(c *cobra.Command, _ []string) error {
	servers, options, err := v.options()
	if err != nil {
		return err
	}
	return v.session(c, func(ctx context.Context, s *session) error {
		p, err := v.plan(ctx, c, s)
		if err != nil {
			return err
		}
		looks := &looker{options: options, named: cli.ServerList(servers.Servers), asked: s.Server(), timeout: v.timeout, current: p.current}
		end := whileDoing(c, "asking the servers")
		p.Servers, err = looks.all(ctx, s, p.next)
		end()
		if err != nil {
			return err
		}
		p.Quorum = p.next.Quorum().Enough(inSync(p.Servers))
		if !s.JSON {
			if err := p.text(s.Out); err != nil {
				return err
			}
		}
		applied := v.apply(ctx, c, s, p, looks)
		if s.JSON {
			return errors.Join(s.Answer(p, nil), applied)
		}
		return applied
	})
}

// plan computes the requested configuration.
func (v *reconfig) plan(ctx context.Context, c *cobra.Command, s *session) (*changePlan, error) {
	current, err := inForce(ctx, s)
	if err != nil {
		return nil, err
	}
	if v.version != "" {
		version, err := strconv.ParseInt(v.version, 16, 64)
		if err != nil {
			return nil, cli.Usage("conclave config prints it at the end", "--version %q is not a hexadecimal number", v.version)
		}
		if version != current.Version {
			return nil, cli.Failed(fmt.Errorf("the configuration in force has version %x, not %x", current.Version, version), "look at it with conclave config")
		}
	}
	p := &changePlan{current: current, change: client.Change{Version: current.Version}}
	request := &zk.Reconfig{ConfigID: -1}
	if v.file != "" {
		text, err := v.readFile(c)
		if err != nil {
			return nil, err
		}
		request.NewMembers = &text
	} else {
		if p.change.Joining, p.change.Leaving, err = v.lines(current); err != nil {
			return nil, err
		}
		joining, leaving := strings.Join(p.change.Joining, ","), strings.Join(p.change.Leaving, ",")
		request.Joining, request.Leaving = &joining, &leaving
	}
	if p.next, err = current.Next(request); err != nil {
		return nil, cli.Usage("conclave reconfig --help shows how a server is written", "the new configuration: %w", err)
	}
	p.next = p.next.WithVersion(0)
	if v.file != "" {
		p.change.Members = p.next.Lines()
	}
	p.Before, _ = describeConfig(current, s.Server())
	p.After, _ = describeConfig(p.next, s.Server())
	return p, nil
}

// readFile reads the lines of a whole ensemble.
func (v *reconfig) readFile(c *cobra.Command) (string, error) {
	var text []byte
	var err error
	if v.file == "-" {
		text, err = io.ReadAll(io.LimitReader(c.InOrStdin(), ensemble.TextBytesMax+1))
	} else {
		text, err = os.ReadFile(v.file)
	}
	if err != nil {
		return "", cli.Usage("name a file with lines server.N=host:port:port;clientPort", "%w", err)
	}
	return string(text), nil
}

// lines returns the lines of servers that join or change, and the ids of those that leave.
func (v *reconfig) lines(current *ensemble.Config) (joining, leaving []string, err error) {
	for _, line := range v.add {
		if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(key, "server.") {
			line = "server." + strings.TrimSpace(line)
		}
		joining = append(joining, line)
	}
	for _, digits := range v.remove {
		m, err := memberOf(current, digits)
		if err != nil {
			return nil, nil, err
		}
		leaving = append(leaving, strconv.FormatInt(int64(m.ID), 10))
	}
	for _, one := range []struct {
		observer bool
		ids      []string
	}{{false, v.promote}, {true, v.demote}} {
		for _, digits := range one.ids {
			m, err := memberOf(current, digits)
			if err != nil {
				return nil, nil, err
			}
			if m.Observer == one.observer {
				return nil, nil, cli.Usage("conclave config shows the roles", "server %d is %s already", m.ID, roleOf(m))
			}
			changed := *m
			changed.Observer = one.observer
			joining = append(joining, fmt.Sprintf("server.%d=%s", m.ID, changed.String()))
		}
	}
	return joining, leaving, nil
}

func memberOf(c *ensemble.Config, digits string) (*ensemble.Member, error) {
	const hint = "conclave config shows the servers"
	id, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return nil, cli.Usage(hint, "%q is not the number of a server", digits)
	}
	m := c.Member(quorum.ID(id))
	if m == nil {
		return nil, cli.Usage(hint, "server %d is not in the configuration", id)
	}
	return m, nil
}

// text prints what is, what is to be, and what was seen, for people.
func (p *changePlan) text(w io.Writer) error {
	before, after := p.current.Lines(), p.next.Lines()
	text := fmt.Sprintf("before: version %s, a quorum is %s\n", p.Before.Version, p.Before.Quorum)
	text += marked(before, after, "-") + fmt.Sprintf("after: a quorum is %s\n", p.After.Quorum) + marked(after, before, "+") + "\n"
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	rows := make([][]string, len(p.Servers))
	for i, l := range p.Servers {
		state := "in sync"
		if !l.InSync {
			state = l.Why
		}
		rows[i] = []string{strconv.FormatInt(l.ID, 10), l.Role, dash(l.Client), dash(l.Mode), dash(l.Zxid), state}
	}
	return cli.Table(w, []string{"ID", "WILL BE", "CLIENTS AT", "IS NOW", "ZXID", "STATE"}, rows)
}

// marked returns the lines, with a mark at those that others does not contain.
func marked(lines, others []string, mark string) string {
	there, text := map[string]bool{}, ""
	for _, line := range others {
		there[line] = true
	}
	for _, line := range lines {
		if there[line] {
			text += "    " + line + "\n"
		} else {
			text += "  " + mark + " " + line + "\n"
		}
	}
	return text
}

// apply proposes a change if that is allowed, and waits until it is in force.
func (v *reconfig) apply(ctx context.Context, c *cobra.Command, s *session, p *changePlan, looks *looker) error {
	switch {
	case p.next.Equal(p.current):
		fmt.Fprintln(c.ErrOrStderr(), "conclave: nothing to change: this is the configuration in force")
		return nil
	case !p.Quorum && !v.force:
		return cli.Failed(fmt.Errorf("the servers in sync are not a quorum of the new configuration (%s): nothing was proposed", p.After.Quorum),
			"start the missing servers, each with a configuration that names all of them; --force leaves the decision to the ensemble")
	case v.dry:
		fmt.Fprintln(c.ErrOrStderr(), "conclave: dry run: nothing was proposed")
		return nil
	}
	asking, cancel := s.within(ctx)
	defer cancel()
	text, _, err := s.Reconfig(asking, p.change)
	lost := err != nil && client.OutcomeOf(err) == client.Unknown
	if err != nil && !lost {
		return reconfigRefused(err)
	}
	if now, bad := ensemble.Parse(string(text)); err == nil && bad == nil {
		p.next = p.next.WithVersion(now.Version)
	}
	if v.wait <= 0 && !lost {
		p.enforced(p.next.Version)
		return nil
	}
	waiting, stop := context.WithTimeout(ctx, v.wait)
	defer stop()
	end := whileDoing(c, "waiting until all servers have it in force")
	version, late := looks.await(waiting, p.next, p.Servers)
	end()
	if version == 0 && lost {
		return reconfigRefused(err)
	}
	p.enforced(max(version, p.next.Version))
	if !s.JSON {
		fmt.Fprintf(s.Out, "\nin force: version %s, on %d of %d servers\n", p.After.Version, len(p.Servers)-len(late), len(p.Servers))
	}
	if len(late) > 0 {
		return cli.Failed(fmt.Errorf("the change is committed, but was not seen in force on server %s", strings.Join(late, ", ")),
			"conclave status shows which servers follow; a server that was down gets the change when it starts")
	}
	return nil
}

// enforced records that a change is in force.
func (p *changePlan) enforced(version int64) {
	p.Applied, p.After.Version = true, strconv.FormatUint(uint64(version), 16)
}

// reconfigRefused adds a hint to a refusal of a reconfig.
func reconfigRefused(err error) error {
	for code, hint := range map[zk.Code]string{
		zk.ErrNoAuth:             "it takes write permission on /zookeeper/config: --auth digest:super:PASSWORD, if the servers have a super user",
		zk.ErrNewConfigNoQuorum:  "a quorum of the new servers must follow the leader: start them, and look at conclave status on each",
		zk.ErrReconfigInProgress: "wait until the other reconfig has ended, then look at conclave config",
		zk.ErrBadVersion:         "somebody else changed the configuration: look at conclave config, and call it again",
		zk.ErrBadArguments:       "the servers refuse it: fewer than two participants, an address that another server has, a server that joins without a client port, or one that could not be started so; the log of the leader says why",
		zk.ErrUnimplemented:      "a standalone server takes no reconfig, unless it was started with standaloneEnabled=false",
		zk.ErrConnectionLoss:     "the answer was lost, and no server shows the change: look at conclave config before you repeat it",
	} {
		if errors.Is(err, code) {
			return cli.Failed(err, hint)
		}
	}
	return err
}
