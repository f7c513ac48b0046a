package command

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/conclave-project/conclave/cmd/conclave/internal/shell"
	"github.com/spf13/cobra"
)

// shelling is the flags of `conclave sh`.
type shelling struct {
	connection
	lines   string
	strict  bool
	session time.Duration
	partial bool   // accept servers without a quorum
	java    string // the file of zkCli.sh's -client-configuration
}

func newSh() *cobra.Command {
	v := &shelling{}
	c := &cobra.Command{
		Use:   "sh [COMMAND [ARGUMENT...]]",
		Short: "Run the commands of zkCli.sh, at a prompt or from a script",
		Example: `  conclave sh --server zk1:2181
  conclave sh --server zk1:2181 get -s /app/config
  conclave sh --strict <script
  conclave sh -c 'create /app/a
  set /app/a text'`,
		Long: `Runs one command, the lines of -c, a script on standard input, or, on a terminal,
the lines that you type: tab completes paths and commands, up and Ctrl-R bring back
earlier lines, Ctrl-C ends the running command, and Ctrl-D leaves. The commands are
those of ZooKeeper's zkCli.sh, with its options and answers, and some more: watch,
multi, tree, find, cd. "conclave sh help" lists them.

The flags of zkCli.sh are accepted, too: -server, -timeout (of the session, in
milliseconds), -r, -waitforconnection, -client-configuration. Everything after
COMMAND belongs to the command.

Exit codes are those of zkCli.sh: 0; 1 if the command failed; 127 if there is no
such command. A script ends with the code of its last line, or of the line before
if the last one is quit. With --strict, a script ends with the first line that
fails, and with its code. 3 means that no session could be opened.`,
		RunE: v.run,
	}
	v.addServers(c)
	c.Flags().SetInterspersed(false)
	c.Flags().StringVarP(&v.lines, "command", "c", "", "run these `lines`; the exit code is that of the last one")
	c.Flags().BoolVar(&v.strict, "strict", false, "end with the first line that fails")
	c.Flags().DurationVar(&v.session, "session-timeout", 30*time.Second, "time after which a silent session expires")
	c.Flags().BoolVar(&v.partial, "read-only", false, "also accept a server that is partitioned from its quorum")
	c.Flags().StringVar(&v.java, "client-configuration", "", "`FILE` with properties of Java's clients: zookeeper.client.secure, zookeeper.ssl.keyStore.location, ...")
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		var fitting []string
		for _, one := range shell.Names() {
			if len(args) == 0 && strings.HasPrefix(one, start) {
				fitting = append(fitting, one)
			}
		}
		return fitting, cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

func (v *shelling) run(c *cobra.Command, args []string) error {
	if v.lines != "" && len(args) > 0 {
		return cli.Usage("write lines after -c, or one command", "both -c and %q", args[0])
	}
	if v.session < time.Second {
		return cli.Usage("write for example --session-timeout 30s", "--session-timeout %v is too short", v.session)
	}
	shown, _, err := v.options()
	if err != nil {
		return err
	}
	_, color := colored(c, os.Stdout).(cli.Styled)
	o := shell.Options{Out: c.OutOrStdout(), Err: c.ErrOrStderr(), Open: v.open, Servers: shown.Servers, Timeout: v.timeout,
		Version: strings.TrimSpace(versionLine()), Color: color}
	if len(args) == 0 && v.lines == "" && onTerminal(c) {
		o.Person = true
		return v.converse(c, o)
	}
	ctx, stop := untilHungUp(c.Context())
	defer stop()
	o.Color = false
	s := shell.New(o)
	defer s.Close()
	if len(args) == 0 || !shell.Offline(args[0]) {
		if err := v.connect(ctx, s, shown.Servers); err != nil {
			return err
		}
	}
	switch {
	case len(args) > 0:
		return ended(s.Do(ctx, args))
	case v.lines != "":
		return v.script(ctx, s, strings.NewReader(v.lines))
	}
	return v.script(ctx, s, c.InOrStdin())
}

// connect opens the session of a shell, and waits until it is connected.
func (v *shelling) connect(ctx context.Context, s *shell.Shell, servers string) error {
	if err := s.Connect(""); err != nil {
		return err
	}
	return v.await(ctx, servers, s.Await)
}

// scriptLineMax is the longest line of a script: longer than any data of a znode.
const scriptLineMax = 64 << 20

// script runs the lines of a script. The exit code is that of the last line.
func (v *shelling) script(ctx context.Context, s *shell.Shell, from io.Reader) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, scriptLineMax)
	code := 0
	for lines.Scan() {
		code = s.Run(ctx, lines.Text())
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if s.Left() || v.strict && code != 0 {
			return ended(code)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	return ended(code)
}

// ended returns the error that ends the process with a code.
func ended(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code: code}
}

// open opens a session with servers; "" means those of the flags.
func (v *shelling) open(servers string) (*client.Client, error) {
	n := v.connection
	if servers != "" {
		n.servers = servers
	}
	store, options, err := n.options()
	if err != nil {
		return nil, err
	}
	if v.java != "" {
		secured, settings, err := javaClient(v.java)
		if err != nil {
			return nil, cli.Usage("docs/shell.md lists the keys that are read", "%w", err)
		}
		if secured && !store.TLS {
			source, err := secure.Open("zookeeper.ssl.", settings, false, slog.New(slog.DiscardHandler))
			if err != nil {
				return nil, cli.Usage("zookeeper.ssl.keyStore.location and zookeeper.ssl.trustStore.location name the files", "%w", err)
			}
			options.Dialer = source.Dial
		}
	}
	options.SessionTimeout, options.AllowReadOnly = v.session, v.partial
	return client.New(store.Servers, options)
}

// asZKCli converts the flags of zkCli.sh to those of `conclave sh`.
func asZKCli(args []string) []string {
	if len(args) == 0 || args[0] != "sh" {
		return args
	}
	flags, out := newSh().Flags(), []string{"sh"}
	for i := 1; i < len(args); i++ {
		next := func() []string {
			i++
			return args[min(i, len(args)):min(i+1, len(args))]
		}
		switch a := args[i]; {
		case a == "-server" || a == "-client-configuration":
			out = append(append(out, "-"+a), next()...)
		case a == "-timeout":
			for _, ms := range next() {
				if _, err := strconv.Atoi(ms); err == nil {
					ms += "ms"
				}
				out = append(out, "--session-timeout", ms)
			}
		case a == "-r":
			out = append(out, "--read-only")
		case a == "-waitforconnection": // `conclave sh` always waits
		case len(a) < 2 || a[0] != '-' || a == "--":
			return append(out, args[i:]...)
		default:
			out = append(out, a)
			name := strings.TrimLeft(a, "-")
			f := flags.Lookup(name)
			if f == nil && len(name) == 1 {
				f = flags.ShorthandLookup(name)
			}
			if f != nil && f.NoOptDefVal == "" || name == "color" {
				out = append(out, next()...)
			}
		}
	}
	return out
}
