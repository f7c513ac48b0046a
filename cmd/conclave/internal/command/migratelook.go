package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/migrate"
	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs/osfs"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// moving is an ensemble whose servers are being exchanged.
type moving struct {
	inspector
	options   client.Options
	config    *ensemble.Config
	addresses map[quorum.ID]string // for clients
}

// glimpse is what was seen of one server.
type glimpse struct {
	standing
	migrate.Server
	id quorum.ID
}

func (g *glimpse) zxid() uint64 {
	zxid, _ := strconv.ParseUint(g.Zxid, 0, 64) // 0 if the server does not report it
	return zxid
}

// open finds all servers in the configuration of an ensemble.
func (v *migration) open(ctx context.Context, c *cobra.Command) (*moving, error) {
	list, options, err := v.options()
	if err != nil {
		return nil, err
	}
	x := &moving{options: options, addresses: map[quorum.ID]string{}}
	x.asker, x.timeout, x.remarks = asker{options.Dialer}, v.timeout, c.ErrOrStderr()
	if x.admin, err = v.admin.access(); err != nil {
		return nil, err
	}
	if err := v.session(c, func(ctx context.Context, s *session) error {
		x.config, err = inForce(ctx, s)
		return err
	}); err != nil {
		return nil, err
	}
	named := cli.ServerList(list.Servers)
	for _, s := range askAll(ctx, x.asker, named, v.timeout) {
		if id, err := strconv.ParseInt(s.ID, 10, 64); err == nil {
			x.addresses[quorum.ID(id)] = s.Server
		}
	}
	for _, m := range members(x.config.Text(), named[0], "") {
		id, err := strconv.ParseInt(m.id, 10, 64)
		if _, known := x.addresses[quorum.ID(id)]; err == nil && !known && m.client != "" && !list.TLS {
			x.addresses[quorum.ID(id)] = m.client
		}
	}
	return x, x.complete(named)
}

// complete finds the one server that does not report its id because it is down: it has the
// remaining name and the remaining id.
func (x *moving) complete(named []string) error {
	var ids []quorum.ID
	for _, m := range x.config.Members {
		if x.addresses[m.ID] == "" {
			ids = append(ids, m.ID)
		}
	}
	for _, address := range x.addresses {
		named = slices.DeleteFunc(named, func(name string) bool { return name == address })
	}
	if len(ids) == 1 && len(named) == 1 {
		x.addresses[ids[0]] = named[0]
		return nil
	}
	if len(ids) > 0 {
		return cli.Usage("name all servers with --server, and allow conf (4lw.commands.whitelist), or write the client port at the end of each line server.N",
			"the client addresses of the servers %v are not known", ids)
	}
	return nil
}

// look asks all servers, in the order of their ids.
func (x *moving) look(ctx context.Context) []glimpse {
	all := make([]glimpse, len(x.config.Members))
	var group sync.WaitGroup
	for i, m := range x.config.Members {
		group.Go(func() { all[i] = x.glance(ctx, m.ID) })
	}
	group.Wait()
	return all
}

func (x *moving) glance(ctx context.Context, id quorum.ID) glimpse {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	g := glimpse{id: id, standing: x.asker.ask(ctx, x.addresses[id])}
	g.Server = migrate.Server{ID: id, Kind: migrate.KindOf(g.Version), Mode: g.standing.Mode, Full: g.diskFull()}
	if g.Error != "" {
		g.Server.Mode = ""
	}
	return g
}

// servers returns what package migrate decides by.
func (x *moving) servers(ctx context.Context) (all []migrate.Server) {
	for _, g := range x.look(ctx) {
		all = append(all, g.Server)
	}
	return all
}

// listens reports whether a port accepts connections.
func (x *moving) listens(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, dialMax)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// digests asks a server for the digests that it remembers.
func (x *moving) digests(ctx context.Context, address string) (migrate.Digests, error) {
	var all migrate.Digests
	err := x.inspector.ask(ctx, address, question{name: "hash", report: "hash",
		text: func(answer string) { all = migrate.ParseHash(answer) },
		json: func(fields map[string]json.RawMessage) error {
			text, err := json.Marshal(fields)
			if err == nil {
				all, err = migrate.ParseHashJSON(text)
			}
			return err
		}})
	if errors.Is(err, errEmpty) {
		return nil, nil // it remembers none yet
	}
	return all, err
}

// newest returns the zxid of the newest transaction that servers report, 0 for none. A
// leader of Apache's reports the zxid with which it has begun its epoch until there is a
// transaction, and other servers may never reach that.
func newest(all []glimpse) (last uint64) {
	for _, g := range all {
		if uint32(g.zxid()) != 0 {
			last = max(last, g.zxid())
		}
	}
	return last
}

// awaitInSync waits until all servers except one have what a leader had when it was asked.
// If digests are to be compared, it is an error if one of them does not report any.
func (x *moving) awaitInSync(ctx context.Context, say func(string, ...any), but quorum.ID, limit time.Duration, digests bool) error {
	all := x.look(ctx)
	last := newest(all)
	for _, g := range all {
		if digests && g.Serves() {
			if _, err := x.digests(ctx, g.standing.Server); err != nil {
				return err
			}
		}
	}
	behind := quorum.ID(0)
	text := func() string { return fmt.Sprintf("server %d has not reached zxid %#x", behind, last) }
	return poll(ctx, limit, say, text, func() (bool, error) {
		for _, g := range x.look(ctx) {
			if g.id != but && g.Serves() && !g.Full && g.zxid() < last { // a server with a full disk is left out, see migrate.Next
				behind = g.id
				return false, nil
			}
		}
		return true, nil
	})
}

// verify waits until a server that was started is part of the ensemble, with its tree and
// its sessions.
func (x *moving) verify(ctx context.Context, say func(string, ...any), id quorum.ID, to migrate.Kind, limit time.Duration, digests bool) (*exchanged, error) {
	var done *exchanged
	var base, before uint64
	var why string
	err := poll(ctx, limit, say, func() string { return why }, func() (bool, error) {
		var one, other *glimpse
		all := x.look(ctx)
		last := newest(all)
		for _, g := range all {
			switch {
			case g.id == id:
				one = &g
			case g.Serves() && (other == nil || g.Server.Mode == "leader"):
				other = &g
			}
		}
		if why = missing(one, other, to); why != "" {
			return false, nil
		}
		why = "it serves without the zxid, the sessions or a digest of the others"
		if base == 0 {
			base = cmp.Or(last, one.zxid())
		}
		if to == migrate.Conclave && one.Mntr["zk_digest_mismatches_count"] > "0" {
			return false, differs(fmt.Errorf("it has counted %s mismatches between its digest and its leader's", one.Mntr["zk_digest_mismatches_count"]))
		}
		done = &exchanged{ID: int64(id), Server: one.standing.Server, Kind: string(to), Mode: one.standing.Mode, Zxid: one.Zxid, Sessions: integer(one.Sessions)}
		if one.zxid() < base || one.Full || one.Sessions != "" && other.Sessions != "" && one.Sessions != other.Sessions {
			return false, nil
		}
		if !digests {
			return true, nil
		}
		quiet := last == before
		before = last
		return x.compare(ctx, done, one, other, base, quiet)
	})
	return done, err
}

// missing returns what prevents a comparison of a started server with another one; "" for
// nothing.
func missing(one, other *glimpse, to migrate.Kind) string {
	switch {
	case one.Error != "":
		return one.Error
	case !one.Serves():
		return "it serves nobody; its log says what it waits for"
	case one.Kind != to:
		return fmt.Sprintf("it is one of %s", one.Kind)
	case other == nil:
		return "no other server serves"
	}
	return ""
}

// compare compares the digests that two servers remember for zxids above base. If nobody
// writes, sessions that begin and end bring the ensemble to the next such zxid.
func (x *moving) compare(ctx context.Context, done *exchanged, one, other *glimpse, base uint64, quiet bool) (bool, error) {
	a, err := x.digests(ctx, one.standing.Server)
	if err != nil {
		return false, err
	}
	b, err := x.digests(ctx, other.standing.Server)
	if err != nil {
		return false, err
	}
	c := migrate.Compare(a, b, base)
	switch {
	case c.Differs != 0:
		return false, differs(fmt.Errorf("its digest at zxid %#x is %x, that of server %d is %x", c.Differs, a[c.Differs], other.id, b[c.Differs]))
	case c.Equal > 0:
		done.DigestZxid = fmt.Sprintf("%#x", c.Last)
		return true, nil
	case !quiet:
		return false, nil
	}
	return false, x.visit(ctx, other.standing.Server, int(migrate.DigestEvery-one.zxid()%migrate.DigestEvery))
}

// visit makes an ensemble decide a number of transactions that change no znode: each is a
// create that fails because the znode exists, which also works with local sessions.
func (x *moving) visit(ctx context.Context, address string, transactions int) error {
	ctx, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	c, err := client.Dial(ctx, address, x.options)
	if err != nil {
		return err
	}
	defer c.Close()
	for range transactions {
		_, _, err := c.Create(ctx, zk.SystemPath, nil, client.CreateOptions{})
		if !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoAuth) {
			return cmp.Or(err, fmt.Errorf("%s has allowed %s to be created", address, zk.SystemPath))
		}
	}
	return nil
}

func differs(err error) error {
	return &cli.Error{Err: err, Exit: cli.ExitDamaged, Hint: "keep a copy of its directory, and see \"A tree that differs\" in docs/operations.md"}
}

// readDirectory finds out what a start would do with the data directory, if it is readable.
func (a *migrationPlan) readDirectory(config *zoocfg.Config) {
	cfg := config.Server
	cfg.FS = osfs.New()
	report, err := server.Check(cfg, true)
	switch {
	case err != nil:
		a.Obstacles = append(a.Obstacles, err.Error())
	case report.Refusal != "":
		a.Obstacles = append(a.Obstacles, cfg.DataDir+": "+report.Refusal)
	case !report.Sound():
		a.Obstacles = append(a.Obstacles, fmt.Sprintf("%s: %s, `conclave check` has them", cfg.DataDir, problems(len(report.Problems))))
	default:
		a.Remarks = append(a.Remarks, cfg.DataDir+": "+startText(report))
	}
}
