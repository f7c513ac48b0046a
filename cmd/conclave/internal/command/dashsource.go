package command

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/dashboard"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/zk"
)

// dashSource provides what the dashboard shows: the output of `top`, `elections`,
// `history`, `sessions`, `watches`, `ls`, `get` and `log`, in one session. It is safe for
// concurrent use.
type dashSource struct {
	servers string
	options client.Options
	log     dashLog // nil if there is no log to read

	search  chan struct{} // holds a token during a search of the log: only one at a time, because each reads the whole log
	listing chan struct{} // holds a token while watches are listed: only one at a time, because each reads them all

	looking  sync.Mutex // guards the overseer and the fields below
	overseer *overseer
	before   *look
	page     *dashPage
	elected  *dashElected

	connecting sync.Mutex // guards the fields below
	session    *client.Client
	unpaged    bool // the server does not list children in pages
}

func newDashSource(o *overseer, servers string, options client.Options) *dashSource {
	return &dashSource{servers: servers, options: options, overseer: o, search: make(chan struct{}, 1), listing: make(chan struct{}, 1)}
}

func (d *dashSource) close() {
	d.looking.Lock()
	d.overseer.close()
	d.looking.Unlock()
	d.connecting.Lock()
	defer d.connecting.Unlock()
	if d.session != nil {
		_ = d.session.Close() // an unclosed session expires
	}
}

// dashPage shows the servers, and what they have done since the previous look, as JSON.
type dashPage struct {
	Time     string     `json:"time"`
	Seconds  float64    `json:"seconds,omitempty"` // between the two looks
	Sessions *int64     `json:"sessions,omitempty"`
	Servers  []load     `json:"servers"`
	Clients  []busy     `json:"clients"` // the busiest
	More     int        `json:"moreClients,omitempty"`
	Paths    []trodden  `json:"paths"`  // the busiest
	Limits   []limitHit `json:"limits"` // that were hit
	Problems []string   `json:"problems,omitempty"`
	at       time.Time
}

// freshTime is how long a look is reused for other callers.
const freshTime = 500 * time.Millisecond

func (d *dashSource) Look(ctx context.Context) (any, error) {
	d.looking.Lock()
	defer d.looking.Unlock()
	if d.page != nil && time.Since(d.page.at) < freshTime {
		return d.page, nil
	}
	now := d.overseer.look(ctx)
	if ctx.Err() != nil { // the caller has not waited for the answers, so later callers must not see silent servers
		return nil, context.Cause(ctx)
	}
	if d.before != nil && now.at.Sub(d.before.at) > time.Minute {
		d.before = nil // the previous look is too old
	}
	p := newPage(d.before, &now, &elected{})
	d.before = &now
	d.page = &dashPage{Time: p.Time, Seconds: p.Seconds, Sessions: p.Sessions, Servers: p.Servers, Clients: p.Clients,
		Paths: p.Paths[:min(len(p.Paths), dashPaths)], Limits: p.Limits, Problems: p.Problems, at: now.at}
	if n := len(p.Clients) - dashClients; n > 0 {
		d.page.Clients, d.page.More = p.Clients[:dashClients], n
	}
	return d.page, nil
}

// dashElected shows elections, as JSON.
type dashElected struct {
	Elections []seen    `json:"elections"`
	More      int       `json:"moreElections,omitempty"`
	Others    []foreign `json:"others"` // of other libraries
	Problem   string    `json:"problem,omitempty"`
	at        time.Time
}

func (d *dashSource) Elections(ctx context.Context) (any, error) {
	d.looking.Lock()
	defer d.looking.Unlock()
	if d.elected != nil && time.Since(d.elected.at) < freshTime {
		return d.elected, nil
	}
	at := d.lastLook(ctx)
	e := d.overseer.elected(ctx, at)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.elected = &dashElected{Elections: append([]seen{}, e.all...), More: e.more, Others: append([]foreign{}, e.others...),
		Problem: e.problem, at: time.Now()}
	return d.elected, nil
}

// lastLook returns the last look at the servers, or takes the first one. The caller holds
// looking.
func (d *dashSource) lastLook(ctx context.Context) *look {
	if d.before == nil {
		now := d.overseer.look(ctx)
		if ctx.Err() != nil {
			return &now
		}
		d.before = &now
	}
	return d.before
}

// dashSessions shows the sessions of the ensemble, as JSON.
type dashSessions struct {
	Sessions []held   `json:"sessions"`
	Problems []string `json:"problems,omitempty"`
}

func (d *dashSource) Sessions(ctx context.Context) (any, error) {
	d.looking.Lock()
	defer d.looking.Unlock()
	at := d.lastLook(ctx)
	told, err := d.overseer.dump(ctx, at)
	if err != nil {
		return nil, err
	}
	i, err := d.overseer.asking(at)
	if err != nil {
		return nil, err
	}
	connections, problems := d.overseer.askClients(ctx, i.servers, nil)
	if lacks := told.lacks(); lacks != nil {
		problems = append(problems, lacks.Error())
	}
	return dashSessions{told.held(connections), problems}, nil
}

// dashArmed shows watches, as JSON.
type dashArmed struct {
	Watches []armed `json:"watches"`
	More    int     `json:"moreWatches,omitempty"`
}

func (d *dashSource) Watches(ctx context.Context, path string) (any, error) {
	select {
	case d.listing <- struct{}{}:
		defer func() { <-d.listing }()
	case <-ctx.Done():
		return nil, &cli.Error{Err: errors.New("watches are being listed for somebody else"), Exit: cli.ExitNoServer, Hint: "try again in a few seconds"}
	}
	d.looking.Lock()
	at := d.lastLook(ctx)
	d.looking.Unlock()
	i, err := d.overseer.asking(at)
	if err != nil {
		return nil, err
	}
	all, left, err := i.watches(ctx, path, func(zk.SessionID) bool { return true })
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(a armed) bool { // the prefix /a also matches /ab
		return a.Path != path && !strings.HasPrefix(a.Path, strings.TrimSuffix(path, "/")+"/")
	})
	found := dashArmed{Watches: all, More: left}
	if n := len(all) - dashWatches; n > 0 {
		found.Watches, found.More = all[:dashWatches], n+left
	}
	return found, nil
}

// store opens a backend for looking at elections.
func (d *dashSource) store(ctx context.Context) (*opened, error) {
	d.looking.Lock()
	servers := d.overseer.named
	if d.before != nil {
		servers = d.before.addresses()
	}
	_, chroot, _ := strings.Cut(d.servers, "/")
	d.looking.Unlock()
	return d.overseer.open(ctx, strings.TrimSuffix(strings.Join(servers, ",")+"/"+chroot, "/"))
}

func (d *dashSource) History(ctx context.Context, name string) (any, error) {
	if err := election.ValidateName(name); err != nil {
		return nil, cli.Usage("an election has a name such as billing/nightly", "%w", err)
	}
	store, err := d.store(ctx)
	if err != nil {
		return nil, err
	}
	defer store.close()
	tenures, err := historyOf(ctx, store, name)
	if err != nil {
		return nil, err
	}
	return newPast(tenures), nil
}

func (d *dashSource) Ask(ctx context.Context, name, to string) (any, error) {
	if err := election.ValidateName(name); err != nil {
		return nil, cli.Usage("an election has a name such as billing/nightly", "%w", err)
	}
	store, err := d.store(ctx)
	if err != nil {
		return nil, err
	}
	defer store.close()
	operator, err := store.operator()
	if err != nil {
		return nil, err
	}
	a := asking{noWait: true}
	a.name = name
	before, err := a.before(ctx, store, to)
	if err != nil {
		return nil, err
	}
	if before.Leader != to {
		err = operator.Ask(ctx, name, election.Request{Transfer: to, Token: before.Token, By: askedBy()})
	}
	switch {
	case errors.Is(err, election.ErrNoLeader):
		return nil, nobodyLeads(name)
	case err != nil:
		return nil, store.unanswered(fmt.Errorf("ask %s, who leads %q: %w", before.Leader, name, err))
	}
	return asked{Election: name, Was: before.Leader, WasToken: uint64(before.Token)}, nil
}

// client returns the session for reading the tree. If it has ended, a new one is opened.
func (d *dashSource) client(ctx context.Context) (*client.Client, error) {
	d.connecting.Lock()
	defer d.connecting.Unlock()
	if d.session != nil {
		select {
		case <-d.session.Done():
			d.session = nil
		default:
			return d.session, nil
		}
	}
	opening, cancel := context.WithTimeout(ctx, dashTimeout)
	defer cancel()
	session, err := client.Dial(opening, d.servers, d.options)
	if err != nil {
		hint, addresses := cli.NoServerHint, cli.ServerList(d.servers)
		if refused(ctx, addresses) == nil {
			hint = unsessionedHint(ctx, err, addresses, d.options.Dialer != nil)
		}
		return nil, &cli.Error{Err: fmt.Errorf("%w: %w", errNoSession, err), Exit: cli.ExitNoServer, Hint: hint}
	}
	d.session = session
	return session, nil
}

// dashChild is a child of a znode as JSON.
type dashChild struct {
	Name      string `json:"name"`
	Children  int32  `json:"children"`
	Bytes     int32  `json:"bytes"`
	Modified  string `json:"modified,omitempty"`
	Ephemeral bool   `json:"ephemeral,omitempty"`
	Locked    bool   `json:"locked,omitempty"` // it cannot be read
}

// dashChildren has some children of a znode, as JSON.
type dashChildren struct {
	Path     string      `json:"path"`
	Children []dashChild `json:"children"`
	Sorted   bool        `json:"sorted"` // all children are sorted by name; otherwise only those of each page
	Total    int32       `json:"total"`
	Next     string      `json:"next,omitempty"` // the cursor of the next page
}

func (d *dashSource) Children(ctx context.Context, path, cursor string, limit int) (any, error) {
	c, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	found, err := d.names(ctx, c, path, cursor, limit)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	places := make(chan struct{}, viewsMax)
	for i := range found.Children {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			child := &found.Children[i]
			stat, _, err := c.Exists(ctx, join(path, child.Name))
			if child.Locked = errors.Is(err, zk.ErrNoAuth); err == nil {
				child.Children, child.Bytes, child.Ephemeral = stat.NumChildren, stat.DataLength, cli.Owner(stat) != ""
				child.Modified = cli.Time(stat.Mtime)
			}
		})
	}
	all.Wait()
	return found, context.Cause(ctx)
}

// names lists children, in pages if the server supports that.
func (d *dashSource) names(ctx context.Context, c *client.Client, path, cursor string, limit int) (*dashChildren, error) {
	found := &dashChildren{Path: path}
	d.connecting.Lock()
	unpaged := d.unpaged
	d.connecting.Unlock()
	var names []string
	if !unpaged {
		at, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil {
			return nil, cli.Usage("leave the cursor out, to begin again", "cursor: %w", err)
		}
		page, err := c.ChildrenPage(ctx, path, at, limit)
		switch {
		case errors.Is(err, zk.ErrUnimplemented):
			d.connecting.Lock()
			d.unpaged = true
			d.connecting.Unlock()
			return d.names(ctx, c, path, "", limit)
		case errors.Is(err, zk.ErrBadArguments) && cursor != "":
			return nil, cli.Usage("leave the cursor out, to begin again", "the list of %s cannot continue: the server is another one, or the znode of the cursor was deleted", path)
		case err != nil:
			return nil, err
		}
		names, found.Total, found.Next = page.Names, page.Stat.NumChildren, base64.RawURLEncoding.EncodeToString(page.Next)
		found.Sorted = cursor == "" && found.Next == ""
	} else {
		all, stat, err := c.Children(ctx, path)
		if err != nil {
			return nil, err
		}
		slices.Sort(all)
		at, _ := slices.BinarySearch(all, cursor+"\x00") // the first one after the cursor
		if cursor == "" {
			at = 0
		}
		names, found.Total, found.Sorted = all[at:min(len(all), at+limit)], stat.NumChildren, true
		if at+limit < len(all) {
			found.Next = names[len(names)-1]
		}
	}
	slices.Sort(names)
	found.Children = make([]dashChild, len(names))
	for i, name := range names {
		found.Children[i].Name = name
	}
	return found, nil
}

// dashZnode shows a znode completely, as JSON.
type dashZnode struct {
	znode
	ACL        []string `json:"acl"`
	ACLProblem string   `json:"aclProblem,omitempty"`
}

func (d *dashSource) Znode(ctx context.Context, path string) (any, error) {
	c, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	data, stat, err := c.Get(ctx, path)
	if err != nil {
		return nil, err
	}
	found := dashZnode{znode: znode{path, cli.NewData(data), cli.NewStat(stat)}, ACL: []string{}}
	list, _, err := c.GetACL(ctx, path)
	if err != nil {
		found.ACLProblem, _, _ = cli.Describe(err)
	}
	for _, entry := range list {
		found.ACL = append(found.ACL, cli.NewACL(entry).String())
	}
	return found, nil
}

// written is the result of a change, as JSON.
type written struct {
	Path string    `json:"path"`
	Stat *cli.Stat `json:"stat,omitempty"` // not for a deleted znode
}

func (d *dashSource) Write(ctx context.Context, w dashboard.Write) (any, error) {
	data, version, mode, err := readWrite(&w)
	if err != nil {
		return nil, err
	}
	c, err := d.client(ctx)
	if err != nil {
		return nil, err
	}
	var stat zk.Stat
	made := written{Path: w.Path}
	switch w.Do {
	case "create":
		made.Path, stat, err = c.Create(ctx, w.Path, data, client.CreateOptions{Mode: mode})
	case "set":
		stat, err = c.Set(ctx, w.Path, data, version)
	default:
		return made, c.Delete(ctx, w.Path, version)
	}
	text := cli.NewStat(stat)
	made.Stat = &text
	return made, err
}

// readWrite parses a change.
func readWrite(w *dashboard.Write) (data []byte, version int32, mode zk.CreateMode, err error) {
	version = -1
	if w.Version != nil {
		version = *w.Version
	}
	modes := map[string]zk.CreateMode{"": zk.Persistent, "sequential": zk.PersistentSequential, "container": zk.Container}
	mode, known := modes[w.Mode]
	switch {
	case !slices.Contains([]string{"create", "set", "delete"}, w.Do):
		return nil, 0, 0, cli.Usage("write create, set or delete", "do is %q", w.Do)
	case !known || w.Mode != "" && w.Do != "create":
		return nil, 0, 0, cli.Usage("write sequential or container, of create alone", "mode is %q", w.Mode)
	case w.Version != nil && (w.Do == "create" || *w.Version < 0):
		return nil, 0, 0, cli.Usage("leave it out for any version", "version is %d", *w.Version)
	case w.Data != nil && w.Base64 != "" || w.Do == "delete" && (w.Data != nil || w.Base64 != ""):
		return nil, 0, 0, cli.Usage("give data or dataBase64, and neither of them to delete", "there is more data than one change can have")
	}
	if w.Data != nil {
		return []byte(*w.Data), version, mode, nil
	}
	if w.Base64 != "" {
		if data, err = base64.StdEncoding.DecodeString(w.Base64); err != nil {
			err = cli.Usage("encode it as RFC 4648 says", "dataBase64: %w", err)
		}
	}
	return data, version, mode, err
}

func (d *dashSource) Log(ctx context.Context, q dashboard.LogQuery) (any, error) {
	if d.log == nil {
		return nil, noLog()
	}
	select {
	case d.search <- struct{}{}:
		defer func() { <-d.search }()
	case <-ctx.Done():
		return nil, &cli.Error{Err: errors.New("the log is being searched for somebody else"), Exit: cli.ExitNoServer, Hint: "try again in a few seconds"}
	}
	return readDashLog(ctx, d.log, q)
}

func (d *dashSource) Follow(ctx context.Context, each func(any)) error {
	if d.log == nil {
		return noLog()
	}
	return followDashLog(ctx, d.log, each)
}
