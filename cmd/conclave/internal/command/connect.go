package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/spf13/cobra"
)

// outputFlag is the -o flag of every command that prints an answer.
type outputFlag struct {
	form string
	json bool
}

func (o *outputFlag) add(c *cobra.Command) {
	c.Flags().StringVarP(&o.form, "output", "o", "text", "text or json")
	c.Flags().BoolVar(&o.json, "json", false, "short for --output json")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *outputFlag) printer(c *cobra.Command) (*cli.Printer, error) {
	if o.form != "text" && o.form != "json" {
		return nil, cli.Usage("write -o text or -o json", "unknown output form %q", o.form)
	}
	return &cli.Printer{Out: colored(c, c.OutOrStdout()), JSON: o.json || o.form == "json"}, nil
}

// connection is the flags of every command that talks to servers.
type connection struct {
	outputFlag
	tlsFlags
	saslFlag
	authFlags
	servers string
	timeout time.Duration

	distrust *distrust // of servers over TLS; nil for others
}

func (n *connection) add(c *cobra.Command) {
	n.outputFlag.add(c)
	n.addServers(c)
}

// addServers adds the flags that name the servers and say who this client is.
func (n *connection) addServers(c *cobra.Command) {
	n.tlsFlags.add(c)
	n.saslFlag.add(c)
	c.Flags().StringVarP(&n.servers, "server", "s", "", "host:port[,host:port...][/chroot], or a URL zk+tls://host:port (default $CONCLAVE_STORE, else "+cli.DefaultServers+")")
	n.authFlags.add(c, "")
	c.Flags().DurationVar(&n.timeout, "timeout", 10*time.Second, "how long to wait for a server and for each answer")
	c.ValidArgsFunction = n.completePath
}

// session opens a session and calls f with it, within the timeout unless the command runs
// until it is interrupted.
func (n *connection) session(c *cobra.Command, f func(ctx context.Context, s *session) error) error {
	printer, err := n.printer(c)
	if err != nil {
		return err
	}
	servers, options, err := n.options()
	if err != nil {
		return err
	}
	ctx, stop := untilHungUp(c.Context())
	defer stop()
	conn, err := n.dial(ctx, servers.Servers, options)
	if err != nil {
		return err
	}
	// If this fails, the session expires; the answer has already been printed.
	defer func() { _ = conn.Close() }()
	return f(ctx, &session{Client: conn, Printer: printer, timeout: n.timeout})
}

// replyBytesMax is enough for the names of any reasonable directory.
const replyBytesMax = 256 << 20

// options returns the servers of a command, and how to open sessions with them.
func (n *connection) options() (cli.Store, client.Options, error) {
	options := client.Options{ReplyBytesMax: replyBytesMax}
	servers, err := cli.Servers(n.servers)
	if err != nil {
		return servers, options, err
	}
	if options.Dialer, err = n.tlsFlags.dial(servers); err != nil {
		return servers, options, err
	}
	if options.Dialer != nil {
		n.distrust = newDistrust(cli.ServerList(servers.Servers))
		options.Dialer = n.distrust.over(options.Dialer)
	}
	if options.Proof, err = n.saslFlag.proof(); err != nil {
		return servers, options, err
	}
	options.Auth, err = n.credentials()
	return servers, options, err
}

// dial opens a session. After a second without one it reports what is wrong.
func (n *connection) dial(ctx context.Context, servers string, options client.Options) (*client.Client, error) {
	var conn *client.Client
	err := n.await(ctx, servers, func(opening context.Context) (err error) {
		conn, err = client.Dial(opening, servers, options)
		return err
	})
	return conn, err
}

// await waits until open has opened a session, within the timeout.
func (n *connection) await(ctx context.Context, servers string, open func(context.Context) error) error {
	opening, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	opening, stop := n.distrust.until(opening)
	defer stop()
	addresses := cli.ServerList(servers)
	connected := warnOfSilence(opening, servers, addresses)
	defer connected()
	err := open(opening)
	if why := context.Cause(opening); err != nil && distrusted(why) != nil {
		return &cli.Error{Err: fmt.Errorf("connect to %s: %w", servers, why), Exit: cli.ExitNoServer, Hint: certificateHint(why)}
	}
	if err == nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	hint := cli.NoServerHint
	if refusal := refused(ctx, addresses); refusal != nil {
		err = refusal
	} else {
		hint = unsessionedHint(ctx, err, addresses, n.distrust != nil)
		err = fmt.Errorf("no session within %v%s", n.timeout, lastAttempt(err))
	}
	return &cli.Error{Err: fmt.Errorf("connect to %s: %w", servers, err), Exit: cli.ExitNoServer, Hint: hint}
}

// lastAttempt returns why the client's last attempt to open a session failed, if it is
// known.
func lastAttempt(err error) string {
	_, why, found := strings.Cut(err.Error(), "(last attempt: ")
	if !found {
		return ""
	}
	return ": " + strings.TrimSuffix(why, ")")
}

// session is a connected client and where its answers go.
type session struct {
	*client.Client
	*cli.Printer
	timeout time.Duration
}

// within bounds one exchange with the server.
func (s *session) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}
