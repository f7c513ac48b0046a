package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
)

// overseer looks at the servers of an ensemble, and at its elections, when it is asked to.
// Only one goroutine at a time may call look, and only one elected or dump.
type overseer struct {
	inspector
	store     cli.Store
	only      bool
	clients   bool              // whether to ask for clients
	named     []string          // by the user
	found     []string          // further servers that were reported; nil before the first look
	ids       map[string]string // of servers, by their addresses
	elections int               // how many elections to look at
	open      func(ctx context.Context, servers string) (*opened, error)
	opened    *opened // for looking at elections; nil before, and after an error
	dumped    dumped  // at dumpedAt
	dumpedAt  time.Time
}

func (v *topping) overseer() (*overseer, error) {
	store, err := cli.Servers(v.servers)
	if err != nil {
		return nil, err
	}
	dial, err := v.tlsFlags.dial(store)
	if err != nil {
		return nil, err
	}
	if _, err := v.credentials(); err != nil { // read a file only once for all sessions
		return nil, err
	}
	o := &overseer{store: store, only: v.only, clients: v.clients > 0, named: cli.ServerList(store.Servers), elections: v.elections}
	o.asker, o.timeout = asker{dial}, v.timeout
	if o.admin, err = v.admin.access(); err != nil {
		return nil, err
	}
	o.open = func(ctx context.Context, servers string) (*opened, error) {
		scheme, _, _ := strings.Cut(store.URL, "://")
		f := storeFlags{tlsFlags: v.tlsFlags, saslFlag: v.saslFlag, authFlags: v.authFlags, store: scheme + "://" + servers}
		return f.look(ctx)
	}
	return o, nil
}

// close must be called when neither look nor elected is running.
func (o *overseer) close() {
	if o.opened != nil {
		o.opened.close()
	}
}

// look is what was seen of all servers at one time.
type look struct {
	at       time.Time
	servers  []standing
	clients  connected // by sessions; nil if they were not asked for
	problems []string  // what could not be seen, and why
}

// addresses are where clients find the servers that were asked.
func (l *look) addresses() (all []string) {
	for _, s := range l.servers {
		all = append(all, s.Server)
	}
	return all
}

// silent is the error of an ensemble of which no server answers.
func (l *look) silent() error {
	if slices.ContainsFunc(l.servers, func(s standing) bool { return s.Error == "" || s.Mode != "" }) {
		return nil
	}
	return unanswered(l.servers)
}

func (o *overseer) look(ctx context.Context) look {
	seen := look{at: time.Now()}
	asked := slices.Concat(o.named, o.found)
	all := askAll(ctx, o.asker, asked, o.timeout)
	told := slices.ContainsFunc(all, func(s standing) bool { return len(s.membership) > 0 })
	if !o.only && !o.store.TLS && (told || o.found == nil) {
		var lost string
		if all, lost = askOthers(ctx, all, o.timeout); lost != "" {
			seen.problems = append(seen.problems, "not shown: "+lost+", whose client port nobody tells: name all with --server")
		}
	}
	o.remember(all, told)
	sortBy(all, func(a, b standing) int { return number(a.ID) - number(b.ID) })
	o.askAdminPorts(ctx, all)
	compare(all)
	seen.servers = all
	seen.problems = append(seen.problems, portsFailed(all)...)
	seen.problems = append(seen.problems, disksFull(all)...)
	if o.clients {
		seen.clients, seen.problems = o.askClients(ctx, all, seen.problems)
	}
	return seen
}

// remember records the servers to ask next time. A server that has left is dropped, unless
// it was named, or no server reports who the servers are. A server that does not report its
// id keeps the last one.
func (o *overseer) remember(all []standing, told bool) {
	var members []string
	for _, s := range all {
		for _, m := range s.membership {
			members = append(members, m.client)
		}
	}
	found, ids := []string{}, map[string]string{}
	for i := range all {
		s := &all[i]
		if s.ID == "" {
			s.ID = o.ids[s.Server]
		}
		ids[s.Server] = s.ID
		if !slices.Contains(o.named, s.Server) && (!told || slices.Contains(members, s.Server)) {
			found = append(found, s.Server)
		}
	}
	o.found, o.ids = found, ids
}

// askAdminPorts asks the admin ports of servers that do not report mntr, if there is only
// one server on the host: with several, it is not known whose port it is.
func (o *overseer) askAdminPorts(ctx context.Context, all []standing) {
	hosts := map[string]int{}
	for _, s := range all {
		host, _, _ := net.SplitHostPort(s.Server)
		hosts[host]++
	}
	var group sync.WaitGroup
	for i := range all {
		host, _, _ := net.SplitHostPort(all[i].Server)
		if all[i].Error == "" && all[i].Mntr == nil && o.admin.port != 0 && hosts[host] == 1 {
			group.Go(func() { o.monitor(ctx, &all[i]) })
		}
	}
	group.Wait()
}

// monitor asks the admin port of a server for the values of mntr.
func (o *overseer) monitor(ctx context.Context, s *standing) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	host, _, _ := net.SplitHostPort(s.Server)
	fields, err := o.report(ctx, net.JoinHostPort(host, strconv.Itoa(int(o.admin.port)))+"/commands/monitor")
	if err != nil {
		return // there may be none
	}
	s.Mntr = map[string]string{}
	for name, value := range fields {
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		s.Mntr["zk_"+name] = text
	}
	s.readMntr()
}

// askClients asks the servers that answer for their connections.
func (o *overseer) askClients(ctx context.Context, all []standing, problems []string) (connected, []string) {
	var remarks strings.Builder
	i := o.inspector
	i.servers, i.remarks = nil, &remarks
	for _, s := range all {
		if s.Error == "" {
			i.servers = append(i.servers, s)
		}
	}
	clients := i.connections(ctx)
	for line := range strings.Lines(remarks.String()) {
		problems = append(problems, strings.TrimPrefix(strings.TrimSpace(line), "conclave: "))
	}
	return clients, problems
}

// elected is what was seen of the elections.
type elected struct {
	all     []seen
	more    int       // how many elections exist that were not looked at
	others  []foreign // of other libraries
	problem string
}

// elected looks at the first elections of the tree, at the servers of a look, if elections
// are wanted.
func (o *overseer) elected(ctx context.Context, at *look) elected {
	if o.elections == 0 {
		return elected{}
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var others []foreign
	if told, err := o.dump(ctx, at); err == nil { // few servers allow it, so an error is ignored
		others = foreignElections(told.ephemerals)
	}
	e, err := o.lookAtElections(ctx, at.addresses())
	e.others = others
	if err == nil {
		return e
	}
	if o.opened != nil {
		o.opened.close()
		o.opened = nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no session within %v", o.timeout)
	}
	return elected{others: others, problem: "elections: " + err.Error()}
}

// dumpTime is how long reported sessions and ephemerals remain valid: a leader copies all
// of them for an answer.
const dumpTime = 5 * time.Second

// dump asks the servers of a look for sessions and ephemerals.
func (o *overseer) dump(ctx context.Context, at *look) (dumped, error) {
	if !o.dumpedAt.IsZero() && time.Since(o.dumpedAt) < dumpTime {
		return o.dumped, nil
	}
	i, err := o.asking(at)
	if err != nil {
		return dumped{}, err
	}
	told, err := i.dump(ctx)
	if err == nil {
		o.dumped, o.dumpedAt = told, time.Now()
	}
	return told, err
}

// asking returns an inspector for the servers that have answered in a look, those that know
// all sessions first.
func (o *overseer) asking(at *look) (*inspector, error) {
	i := o.inspector
	i.servers, i.remarks = nil, new(strings.Builder)
	for _, s := range at.servers {
		if s.Error == "" {
			i.servers = append(i.servers, s)
		}
	}
	if len(i.servers) == 0 {
		return nil, unanswered(at.servers)
	}
	sortBy(i.servers, func(a, b standing) int { return knowsAll(b) - knowsAll(a) })
	return &i, nil
}

func (o *overseer) lookAtElections(ctx context.Context, servers []string) (e elected, err error) {
	if o.opened == nil {
		_, chroot, _ := strings.Cut(o.store.Servers, "/")
		if o.opened, err = o.open(ctx, strings.TrimSuffix(strings.Join(servers, ",")+"/"+chroot, "/")); err != nil {
			return e, err
		}
	}
	operator, err := o.opened.operator()
	if err != nil {
		return e, err
	}
	names, err := operator.Elections(ctx)
	if err != nil {
		return e, err
	}
	e.more = max(0, len(names)-o.elections)
	e.all = make([]seen, len(names)-e.more)
	places := make(chan struct{}, viewsMax)
	var group sync.WaitGroup
	for i := range e.all {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			e.all[i] = newSeen(glimpseOf(ctx, o.opened, names[i]))
		})
	}
	group.Wait()
	return e, nil
}

// glimpseOf returns the current view of an election.
func glimpseOf(ctx context.Context, b election.Backend, name string) election.View {
	for v, err := range b.Observe(ctx, name) {
		v.Election, v.Err = name, err
		return v
	}
	return election.View{Election: name, Err: context.Cause(ctx)}
}
