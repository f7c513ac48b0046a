package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
	"github.com/spf13/cobra"
)

// storeFlags are the flags that name the store of elections.
type storeFlags struct {
	tlsFlags
	saslFlag
	authFlags
	store string
}

func (s *storeFlags) add(c *cobra.Command) {
	s.tlsFlags.add(c)
	s.saslFlag.add(c)
	c.Flags().StringVar(&s.store, "store", "", "`URL` of the store: zk://host:port[,host:port...][/chroot], file:///dir or another that conclave help run shows (default $CONCLAVE_STORE, else a directory of this user on this machine)")
	s.authFlags.add(c, " to ZooKeeper's servers")
	_ = c.RegisterFlagCompletionFunc("store", completeStore)
}

// opened is a backend in use.
type opened struct {
	election.Backend
	kind
	shown     string   // its URL, for people
	addresses []string // of its servers, if known
	close     func()
	distrust  *distrust // of servers over TLS; nil for others
}

// open returns the backend that the flags or the environment name.
func (s *storeFlags) open(ctx context.Context) (*opened, error) {
	k, t, err := s.named()
	if err != nil {
		return nil, err
	}
	b, closeBackend, err := k.open(ctx, t)
	if err != nil {
		return nil, explainOpen(k, err)
	}
	// What was not released when the process ends will expire.
	return &opened{b, k, t.shown(), k.addresses(t), func() { _ = closeBackend() }, t.distrust}, nil
}

// look is open for commands that only look at elections, or send requests to leaders.
func (s *storeFlags) look(ctx context.Context) (*opened, error) {
	if k, _, err := s.named(); err == nil && k.membersOnly {
		return nil, cli.Usage("use it with conclave run, lock or elect: their output shows who leads",
			"only candidates know the elections of %s", k.scheme)
	}
	return s.open(ctx)
}

// named returns the store that the flags or the environment name.
func (s *storeFlags) named() (kind, target, error) {
	text := s.store
	if text == "" {
		var set bool
		if text, set = os.LookupEnv(cli.StoreVariable); set && text == "" {
			// Each host would elect on its own.
			return kind{}, target{}, cli.Usage("give it a value, or unset it", "%s is empty", cli.StoreVariable)
		}
	}
	t := target{Store: cli.Store{Scheme: "file"}}
	if text != "" {
		var err error
		if t.Store, err = cli.ParseStore(text); err != nil {
			return kind{}, t, err
		}
	}
	k, err := findBackend(t.Store)
	if err != nil {
		return kind{}, t, err
	}
	if flag := s.given(); flag != "" && k.scheme != "zookeeper" {
		return kind{}, t, cli.Usage("other stores find their credentials where their own tools do", "%s is for ZooKeeper's servers, not for %s", flag, k.scheme)
	}
	if t.dial, err = s.tlsFlags.dial(t.Store); err != nil {
		return kind{}, t, err
	}
	if t.dial != nil {
		t.distrust = newDistrust(k.addresses(t))
		t.dial = t.distrust.over(t.dial)
	}
	if s.jaas.set != "" && k.scheme != "zookeeper" {
		return kind{}, t, cli.Usage("other stores find their credentials where their own tools do", "--jaas is for ZooKeeper's servers, not for %s", k.scheme)
	}
	if k.scheme == "zookeeper" {
		if t.proof, err = s.saslFlag.proof(); err != nil {
			return kind{}, t, err
		}
		if t.auth, err = s.credentials(); err != nil {
			return kind{}, t, err
		}
	}
	return k, t, nil
}

func explainOpen(k kind, err error) error {
	var own *cli.Error
	if errors.As(err, &own) {
		return err
	}
	hint := "a URL of this store looks like " + k.example
	if errors.Is(err, election.ErrPermanent) {
		return cli.Usage(hint, "%w", err)
	}
	return cli.Failed(err, hint)
}

// operator returns the backend as an election.Operator.
func (o *opened) operator() (election.Operator, error) {
	if op, ok := o.Backend.(election.Operator); ok {
		return op, nil
	}
	return nil, cli.Failed(fmt.Errorf("%s does not answer operators: %w", o.Traits().Name, errors.ErrUnsupported),
		"these do: "+operators()+"; `conclave leader` and `conclave observe` work with every store")
}

// electionFlags is the flags of every command about one election.
type electionFlags struct {
	storeFlags
	name string
}

func (b *electionFlags) add(c *cobra.Command) {
	b.storeFlags.add(c)
	c.Flags().StringVarP(&b.name, "election", "e", "", "name of the election, such as billing/nightly, if it is not the first argument")
	_ = c.RegisterFlagCompletionFunc("election", b.complete)
	c.ValidArgsFunction = func(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || b.name != "" {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return b.complete(c, args, start)
	}
}

// take takes the first argument as the name of the election, unless a flag has named it,
// and returns the other arguments.
func (b *electionFlags) take(c *cobra.Command, args []string) ([]string, error) {
	if b.name == "" {
		if len(args) == 0 {
			return nil, cli.Usage("write "+c.CommandPath()+" NAME, with a name such as billing/nightly", "no election named")
		}
		b.name, args = args[0], args[1:]
	}
	if err := election.ValidateName(b.name); err != nil {
		return nil, cli.Usage("an election has a name such as billing/nightly", "%w", err)
	}
	return args, nil
}

// only is take for commands without further arguments.
func (b *electionFlags) only(c *cobra.Command, args []string) error {
	if b.name != "" && len(args) > 0 {
		return b.twice(args[0])
	}
	rest, err := b.take(c, args)
	if err == nil && len(rest) > 0 {
		err = cli.Usage(c.CommandPath()+" --help shows what it takes", "%q is one argument too many", rest[0])
	}
	return err
}

// twice returns the error for a command line that names the election both with a flag and
// without.
func (b *electionFlags) twice(other string) error {
	return cli.Usage("name it once: as the first argument or with --election", "two elections are named, %q and %q", other, b.name)
}

// takeCommand takes what is before the two dashes as the name of the election, and returns
// the command after them. With --election the dashes may be omitted.
func (b *electionFlags) takeCommand(c *cobra.Command, args []string) ([]string, error) {
	hint := fmt.Sprintf("put it after two dashes: %s NAME -- COMMAND", c.CommandPath())
	named, command := args, []string(nil)
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		named, command = args[:dash], args[dash:]
	} else if b.name != "" {
		named, command = nil, args
	}
	if len(named) > 0 && b.name != "" {
		return nil, b.twice(named[0])
	}
	if len(named) > 1 {
		return nil, cli.Usage(hint, "%q is neither an election nor a command", named[1])
	}
	if _, err := b.take(c, named); err != nil {
		return nil, err
	}
	if len(command) == 0 {
		return nil, cli.Usage(hint, "no command given")
	}
	return command, nil
}

// candidate is the flags of commands that want to lead.
type candidate struct {
	electionFlags
	id       string
	lease    time.Duration
	priority int
	metadata string
	quiet    bool
	times    bool
	connect  time.Duration // 0 means without limit
	slow     time.Duration // the same for servers that do not refuse connections, if longer
	forever  bool
	options  election.Options // set only by some commands
}

func (v *candidate) add(c *cobra.Command) {
	v.electionFlags.add(c)
	c.Flags().StringVar(&v.id, "id", "", "name of this candidate (default host name and process id)")
	c.Flags().DurationVar(&v.lease, "lease", election.LeaseDefault, "how long a silent leader keeps others out")
	c.Flags().IntVar(&v.priority, "priority", 0, fmt.Sprintf("how much this candidate is preferred, 0 to %d: a leader hands over to a waiter with a higher priority", election.PriorityMax))
	c.Flags().StringVar(&v.metadata, "metadata", "", fmt.Sprintf("what conclave leader and observe show beside the id, such as an address, up to %d bytes", election.MetadataMax))
	c.Flags().DurationVar(&v.connect, "connect-timeout", 0, "how long to try to reach the store before the command ends with code 3; 0 means no limit")
	c.Flags().BoolVarP(&v.quiet, "quiet", "q", false, "print nothing about the election on standard error")
	c.Flags().BoolVar(&v.times, "timestamps", false, "begin each line about the election with the time, if no journal does that")
}

// elector creates the candidate.
func (v *candidate) elector(c *cobra.Command) (*running, error) {
	if v.connect < 0 {
		return nil, cli.Usage("write for example --connect-timeout 10s", "--connect-timeout %v is negative", v.connect)
	}
	for _, name := range []string{"lease", "grace", "hook-limit"} { // zero would mean the default
		if given, err := c.Flags().GetDuration(name); err == nil && c.Flags().Changed(name) && given <= 0 {
			return nil, cli.Usage("write for example --"+name+" 10s", "--%s %v: must be above zero", name, given)
		}
	}
	b, err := v.open(c.Context())
	if err != nil {
		return nil, err
	}
	if err := b.reach(c.Context(), v.name, v.connect, max(v.connect, v.slow)); err != nil {
		b.close()
		return nil, err
	}
	if !c.Flags().Changed("lease") {
		v.lease = max(v.lease, b.Traits().LeaseMin)
	}
	news := newReporter(c.ErrOrStderr(), v.quiet, v.lease)
	news.times = v.times
	options := v.options
	options.ID, options.Lease, options.Priority, options.OnEvent = v.id, v.lease, v.priority, news.event
	options.Metadata = []byte(v.metadata)
	options.Once = !v.forever
	options.MayOverlap = !b.Traits().Exclusive // the URL has chosen the algorithm
	elector, err := election.New(b.Backend, v.name, options)
	if err != nil {
		b.close()
		news.close()
		return nil, cli.Usage("see --id, --lease, --priority and --metadata", "%w", err)
	}
	return &running{elector, news, b}, nil
}

// running is a candidate, with the reporter of its news.
type running struct {
	*election.Elector
	news *reporter
	open *opened
}

func (s *running) close() {
	s.open.close()
	s.news.close()
}
