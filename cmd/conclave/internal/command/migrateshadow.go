package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/migrate"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/spf13/cobra"
)

// migrateShadow is the flags of `conclave migrate shadow`.
type migrateShadow struct {
	migration
	config string
	id     int64
	time   time.Duration
}

func newMigrateShadow() *cobra.Command {
	v := &migrateShadow{}
	c := &cobra.Command{
		Use:   "shadow",
		Short: "Rehearse: a Conclave server observes the ensemble, and its tree is compared",
		Long: `Starts a Conclave server that joins the ensemble as an observer, with an empty
directory of its own that is removed at the end. It applies every transaction and
compares the digest that comes with each. Once a second, its digests are compared
with those of all other servers. It has no vote, listens for clients only on a free
port of this host, and leaves when the time is over or when it is interrupted.

The ensemble need not know it: Apache's leader accepts an observer that is not in its
configuration. --config is the zoo.cfg of a server, with the files that it names and
the java.env beside it. It must have the lines server.N; with dynamicConfigFile, add
the observer with conclave reconfig and start it as a server instead.

The exit code is 5 if a digest differs.`,
		Example: `  conclave migrate shadow --server zk1:2181,zk2:2181,zk3:2181 --config zoo.cfg --for 1h`,
		Args:    takes(0),
		RunE:    v.run,
	}
	v.migration.add(c)
	c.Flags().StringVarP(&v.config, "config", "c", "", "zoo.cfg of a server of the ensemble")
	c.Flags().Int64Var(&v.id, "id", 254, "server id of the observer, which must be above those of all servers")
	c.Flags().DurationVar(&v.time, "for", 10*time.Minute, "how long to observe, once it serves; 0 is until interrupted")
	c.Flags().DurationVar(&v.wait, "wait", 10*time.Minute, "how long it may take to get in sync")
	return c
}

// shadowed is the answer of `conclave migrate shadow` as JSON.
type shadowed struct {
	Digests  int     `json:"digests"` // number of digests compared with those of other servers
	FromZxid string  `json:"fromZxid"`
	ToZxid   string  `json:"toZxid"`
	Seconds  float64 `json:"seconds"`
}

func (v *migrateShadow) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	if v.config == "" {
		return cli.Usage("name the zoo.cfg of a server of the ensemble with --config", "no ensemble is named")
	}
	ctx, stop := untilHungUp(c.Context())
	defer stop()
	x, err := v.open(ctx, c)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "conclave-shadow-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	address, flags, err := v.configure(dir, x)
	if err != nil {
		return err
	}
	child, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	ended, err := startShadow(child, c, dir, flags)
	if err != nil {
		return err
	}
	answer, err := v.observe(ctx, c, x, address, ended)
	cancel()
	<-ended
	if err != nil {
		return err
	}
	return p.Line(answer, fmt.Sprintf("no difference: %d digests of other servers, and that of each transaction, from zxid %s to %s; %.0f s",
		answer.Digests, answer.FromZxid, answer.ToZxid, answer.Seconds))
}

// notShadowed are the beginnings of the keys of settings that the observer must have for
// itself.
var notShadowed = []string{"dataDir", "dataLogDir", "clientPort", "secureClientPort", "peerType", "admin.", "metricsProvider.",
	"4lw.commands.whitelist", "zookeeper.4lw.commands.whitelist", "zookeeper.admin.", "audit.enable", "zookeeper.audit.enable",
	"conclave.backup", "conclave.trace", "conclave.http", "conclave.audit", "conclave.myid", "conclave.ownLine", "-"}

// configure writes zoo.cfg and myid of the observer. It returns the observer's address, and
// Java flags that also apply to it, because in a file they would mean something else.
func (v *migrateShadow) configure(dir string, x *moving) (address string, flags []string, err error) {
	for _, m := range x.config.Members {
		if m.ID >= quorum.ID(v.id) {
			return "", nil, cli.Usage("give --id a number above those of all servers, at most 254", "the ensemble has a server %d", m.ID)
		}
	}
	plan := &migrationPlan{}
	entries, err := (&serve{config: v.config}).file()
	if err != nil {
		return "", nil, err
	}
	properties := zoocfg.Given(plan.readScripts(v.config), entries)
	if len(plan.Obstacles) > 0 {
		return "", nil, cli.Usage("write out what the script sets", "%s", strings.Join(plan.Obstacles, "; "))
	}
	var ports [3]string
	for i := range ports {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		defer free.Close()
		ports[i] = strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	}
	text := ""
	if entries, err = v.shadowed(entries); err == nil {
		properties, err = v.shadowed(properties)
	}
	if err != nil {
		return "", nil, err
	}
	for _, e := range entries {
		text += fmt.Sprintf("%s=%s\n", e.Key, strings.ReplaceAll(e.Value, `\`, `\\`))
	}
	for _, e := range properties {
		flags = append(flags, "-D", e.Key+"="+e.Value)
	}
	text += fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\npeerType=observer\n4lw.commands.whitelist=*\nserver.%d=127.0.0.1:%s:%s:observer\n",
		strings.ReplaceAll(dir, `\`, `\\`), ports[0], v.id, ports[1], ports[2])
	if err := os.WriteFile(filepath.Join(dir, "myid"), fmt.Appendln(nil, v.id), 0o600); err != nil {
		return "", nil, err
	}
	return net.JoinHostPort("127.0.0.1", ports[0]), flags, os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(text), 0o600)
}

// shadowed returns those of a server's settings that also apply to the observer.
func (v *migrateShadow) shadowed(entries []zoocfg.Entry) (shared []zoocfg.Entry, err error) {
	for _, e := range entries {
		if e.Key == "dynamicConfigFile" || e.Key == "reconfigEnabled" && e.Value == "true" {
			return nil, cli.Usage("conclave reconfig --add 'server.N=host:port:port:observer;port', and start that server",
				"%s: an ensemble that may change its configuration must know its observers", e.Key)
		}
		if !slices.ContainsFunc(notShadowed, func(key string) bool { return strings.HasPrefix(e.Key, key) }) {
			shared = append(shared, e)
		}
	}
	return shared, nil
}

// startShadow starts the observer, which is stopped in order when the context ends. Its
// warnings go to the standard error.
func startShadow(ctx context.Context, c *cobra.Command, dir string, flags []string) (ended <-chan struct{}, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--config", filepath.Join(dir, "zoo.cfg"), "--log-level", "warn"}, flags...)
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "SERVER_JVMFLAGS=", "JVMFLAGS=")
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay, command.SysProcAttr = dialMax*10, noOrphan()
	output, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // see noOrphan
		err := command.Start()
		if started <- err; err != nil {
			return
		}
		passLines(c.ErrOrStderr(), "observer: ", output)
		_ = command.Wait() // it was told to end, or has reported why it ended
	}()
	return done, <-started
}

// shownBytesMax is how much of one line is passed on; the rest is dropped.
const shownBytesMax = 64 << 10

// passLines copies lines of any length, each after a prefix, until the end of the input.
func passLines(w io.Writer, prefix string, from io.Reader) {
	for lines := bufio.NewReaderSize(from, shownBytesMax); ; {
		line, err := lines.ReadSlice('\n')
		text := strings.TrimRight(string(line), "\r\n")
		left := 0
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = lines.ReadSlice('\n')
			left += len(line)
		}
		if left > 0 {
			text += fmt.Sprintf(" ... and %d bytes more", left)
		}
		if text != "" || err == nil {
			fmt.Fprintln(w, prefix+text)
		}
		if err != nil {
			return
		}
	}
}

// observe waits until the observer is in sync, and compares digests until the time is over.
func (v *migrateShadow) observe(ctx context.Context, c *cobra.Command, x *moving, address string, ended <-chan struct{}) (*shadowed, error) {
	id := quorum.ID(v.id)
	x.addresses[id] = address
	seen := func() (glimpse, error) {
		select {
		case <-ended:
			return glimpse{}, cli.Failed(errors.New("the observer has ended"), "its lines above say why")
		default:
		}
		return x.own(ctx, id), ctx.Err()
	}
	var first glimpse
	say := func(format string, args ...any) { fmt.Fprintf(c.ErrOrStderr(), "conclave: "+format+"\n", args...) }
	if err := poll(ctx, v.wait, say, func() string { return "the observer does not serve" }, func() (is bool, err error) {
		first, err = seen()
		return first.standing.Mode == "observer", err
	}); err != nil {
		return nil, err
	}
	say("observing from zxid %s", first.Zxid)
	var base uint64
	for _, g := range x.look(ctx) {
		base = max(base, g.zxid())
	}
	began, last := time.Now(), first
	compared := map[string]bool{}
	for v.time == 0 || time.Since(began) < v.time {
		g, err := seen()
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return nil, err
		}
		if n := g.Mntr["zk_digest_mismatches_count"]; n > "0" {
			return nil, differs(fmt.Errorf("the observer has counted %s transactions after which its digest differs from its leader's, near zxid %s", n, g.Zxid))
		}
		if g.Serves() {
			last = g
			if err := x.compareAll(ctx, address, base, compared); err != nil && ctx.Err() == nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if len(compared) == 0 {
		return nil, cli.Failed(errors.New("no digest was compared"), "there were fewer than 128 transactions: observe for longer with --for")
	}
	return &shadowed{Digests: len(compared), FromZxid: first.Zxid, ToZxid: last.Zxid, Seconds: time.Since(began).Seconds()}, nil
}

// own looks at the observer, which uses no TLS on this host.
func (x *moving) own(ctx context.Context, id quorum.ID) glimpse {
	local := *x
	local.asker = asker{}
	return local.glance(ctx, id)
}

// compareAll compares the digests of the observer with those of all servers that serve, and
// records each comparison in compared.
func (x *moving) compareAll(ctx context.Context, address string, base uint64, compared map[string]bool) error {
	local := *x
	local.asker = asker{}
	ours, err := local.digests(ctx, address)
	if err != nil {
		return err
	}
	for _, g := range x.look(ctx) {
		if !g.Serves() {
			continue
		}
		theirs, err := x.digests(ctx, g.standing.Server)
		if err != nil {
			return err
		}
		if c := migrate.Compare(ours, theirs, base); c.Differs != 0 {
			return differs(fmt.Errorf("the observer's digest at zxid %#x is %x, that of server %d is %x", c.Differs, ours[c.Differs], g.id, theirs[c.Differs]))
		}
		for zxid := range ours {
			if _, both := theirs[zxid]; both && zxid > base {
				compared[fmt.Sprintf("%d %x", g.id, zxid)] = true
			}
		}
	}
	return nil
}
