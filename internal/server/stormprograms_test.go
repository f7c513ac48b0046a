package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/cache"
	"github.com/conclave-project/conclave/internal/bubble"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/storm"
	"github.com/conclave-project/conclave/zk"
)

const (
	stormPrograms  = 3
	programMachine = 101 // of the first program

	sharedPath = "/shared"
	ownedPath  = "/owned" // ephemeral znodes are below it
)

// program has sessions, one after another, with the real client on a machine of its own. It has
// ephemeral znodes, watches, and a copy of a part of the tree. Judged is:
//
//   - a session is never shown an older state than before, whichever server it is at;
//   - the event of a watch comes before the change is read, and none comes without a change;
//   - an ephemeral znode is there until its session is closed, or is not proven any more;
//   - a request of a session without an answer is done before its next answer, or never;
//   - after Sync, a copy has what was there before, and nothing that was gone before;
//   - no session expires while all is well and it has a server, not even that of a program that
//     only reads.
type program struct {
	w       *ensembleStorm
	machine int
	quiet   bool       // writes nothing, once it has an ephemeral znode
	random  *rand.Rand // of its goroutine
	made    int        // number of znodes so far

	// For the present session, and used by its goroutine.
	watch   *client.Watch
	watched zk.Zxid // the state that was read with the watch
	seen    zk.Zxid // the newest zxid read of the shared znodes
	copy    *cache.Cache
	unsure  string // a znode that was requested and may be there
	looked  bool   // unsure is not there

	mu      sync.Mutex
	session *client.Client // nil between two sessions
	holds   string         // an ephemeral znode that was acknowledged, "" for none
}

// owner is what others know of a program.
func (p *program) owner() (*client.Client, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session, p.holds
}

func (p *program) own(session *client.Client, holds string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.holds = session, holds
}

// run has one session after another until the storm is over.
func (p *program) run() {
	for p.w.stopped.Err() == nil {
		p.live()
	}
}

// live lives for one session.
func (p *program) live() {
	hosts := make([]string, 0, stormMachines)
	for id := 1; id <= stormMachines; id++ {
		hosts = append(hosts, bubble.Host(id)+":2181")
	}
	c, err := client.Dial(p.w.stopped, strings.Join(hosts, ","), client.Options{Dialer: p.w.net.Dialer(p.machine),
		Clock: p.w.clock, Seed: p.random.Uint64() | 1, OnEvent: p.log(), SessionTimeout: time.Duration(2+p.random.IntN(5)) * time.Second})
	if err != nil {
		return
	}
	p.own(c, "")
	p.watch, p.seen, p.unsure = nil, 0, ""
	looking, stop := context.WithCancel(p.w.stopped)
	var looks sync.WaitGroup
	looks.Go(func() { p.lookAround(looking, c) })
	for range 20 + p.random.IntN(400) {
		if err := p.step(c); errors.Is(err, zk.ErrSessionExpired) || p.w.stopped.Err() != nil {
			break
		}
		time.Sleep(time.Duration(5+p.random.IntN(100)) * time.Millisecond)
	}
	stop()
	looks.Wait()
	if until, proven := c.ProvenUntil(); errors.Is(c.Err(), zk.ErrSessionExpired) && proven && p.w.clock.Now() < until {
		p.w.Breach("session %v has expired and is proven for %v more", c.SessionID(), until.Sub(p.w.clock.Now()))
	}
	p.own(nil, "")
	if p.copy != nil {
		p.copy.Close()
		p.copy = nil
	}
	if p.random.IntN(2) == 0 {
		c.Detach() // it is left to expire
	} else {
		_ = c.Close()
	}
}

// log prints what happens to the connections, if the storm prints what it does.
func (p *program) log() func(client.Event) {
	if !storm.Prints() {
		return nil
	}
	return client.LogEvents(slog.New(slog.NewTextHandler(stormLog{func(s string) {
		fmt.Printf("%9.3f program %d: %s", time.Since(p.w.Began).Seconds(), p.machine, s)
	}}, &slog.HandlerOptions{Level: slog.LevelDebug})), nil)
}

// step is one action of a program. An error means that it was not done, or perhaps not.
func (p *program) step(c *client.Client) error {
	ctx := p.w.stopped
	does := p.random.IntN(10)
	if _, holds := p.owner(); p.quiet && holds != "" {
		does = []int{0, 7}[p.random.IntN(2)]
	}
	switch does {
	case 0, 1, 2:
		return p.read(ctx, c)
	case 3:
		return p.lookAgain(ctx, c)
	case 4, 5:
		stat, err := c.Set(ctx, sharedPath, []byte(fmt.Sprint(p.machine, p.random.Uint32())), -1)
		if err == nil {
			p.saw(stat.Mzxid)
		} else if errors.Is(err, zk.ErrNoNode) {
			_, _, err = c.Create(ctx, sharedPath, nil, client.CreateOptions{})
		}
		return err
	case 6:
		return p.hold(ctx, c)
	case 7:
		return p.stillHolds(ctx, c)
	case 8:
		_, err := c.Prove(ctx, 0)
		return err
	default:
		return p.compare(ctx, c)
	}
}

// saw notes a state of the shared znodes, which must not be older than the last one.
func (p *program) saw(mzxid zk.Zxid) {
	if mzxid < p.seen {
		p.w.Breach("machine %d was shown %v after %v", p.machine, mzxid, p.seen)
	}
	p.seen = mzxid
}

// read reads the shared znodes, and sets a watch unless there is one.
func (p *program) read(ctx context.Context, c *client.Client) error {
	if p.watch == nil {
		_, stat, watch, err := c.GetW(ctx, sharedPath)
		if err == nil {
			p.saw(stat.Mzxid)
			p.watch, p.watched = watch, stat.Mzxid
		}
		return err
	}
	told := false
	select {
	case _, told = <-p.watch.Events():
	default:
	}
	_, stat, err := c.Get(ctx, sharedPath)
	if err != nil {
		if told {
			p.watch = nil
		}
		return err
	}
	p.saw(stat.Mzxid)
	if told && stat.Mzxid == p.watched {
		p.w.Breach("machine %d was told of a change of %v, and there is none", p.machine, p.watched)
	}
	if !told && stat.Mzxid > p.watched {
		select {
		case _, told = <-p.watch.Events():
		default:
		}
		if !told {
			p.w.Breach("machine %d reads %v before it is told that %v has changed", p.machine, stat.Mzxid, p.watched)
		}
	}
	if told {
		p.watch = nil
	}
	return nil
}

// hold creates an ephemeral znode, or deletes the one that the program has.
func (p *program) hold(ctx context.Context, c *client.Client) error {
	if _, holds := p.owner(); holds != "" {
		p.own(c, "")
		return c.Delete(ctx, holds, -1)
	}
	p.made++
	asked := fmt.Sprintf("%s/%d-%d", ownedPath, p.machine, p.made)
	path, _, err := c.Create(ctx, asked, nil, client.CreateOptions{Mode: zk.Ephemeral})
	if errors.Is(err, zk.ErrNoNode) {
		_, _, err = c.Create(ctx, ownedPath, nil, client.CreateOptions{})
		return err
	}
	switch {
	case err == nil:
		p.own(c, path)
	case client.OutcomeOf(err) == client.Unknown:
		p.unsure, p.looked = asked, false
		return p.lookAgain(ctx, c)
	}
	return err
}

// lookAgain looks for a znode that was requested and may be there. Once it is not there, it
// must never appear.
func (p *program) lookAgain(ctx context.Context, c *client.Client) error {
	if p.unsure == "" {
		return nil
	}
	_, found, err := c.Exists(ctx, p.unsure)
	switch {
	case err != nil:
	case found && p.looked:
		p.w.Breach("session %v did not find its %s, and then it came", c.SessionID(), p.unsure)
	case found:
		p.own(c, p.unsure)
		p.unsure = ""
	default:
		p.looked = true
	}
	return err
}

// stillHolds checks that the session's own znode is there, on any server.
func (p *program) stillHolds(ctx context.Context, c *client.Client) error {
	_, holds := p.owner()
	if holds == "" {
		return nil
	}
	stat, found, err := c.Exists(ctx, holds)
	if err == nil && (!found || zk.SessionID(stat.EphemeralOwner) != c.SessionID()) {
		p.w.Breach("session %v is alive, and its %s is gone (%v)", c.SessionID(), holds, found)
	}
	return err
}

// lookAround judges what the others hold, for as long as the session lives, even while a write
// of this one waits for the leader.
func (p *program) lookAround(ctx context.Context, c *client.Client) {
	random := rand.New(rand.NewPCG(uint64(c.SessionID()), 3))
	for ctx.Err() == nil && !errors.Is(c.Err(), zk.ErrSessionExpired) {
		_ = p.judge(ctx, c, p.w.programs[random.IntN(stormPrograms)])
		time.Sleep(time.Duration(10+random.IntN(60)) * time.Millisecond)
	}
}

// judge checks that the znode of another program is there as long as that program may rely on
// it.
func (p *program) judge(ctx context.Context, c *client.Client, other *program) error {
	session, holds := other.owner()
	if holds == "" {
		return nil
	}
	if err := c.Sync(ctx, holds); err != nil {
		return err
	}
	_, found, err := c.Exists(ctx, holds)
	if err != nil || found {
		return err
	}
	now := p.w.clock.Now()
	if still, it := other.owner(); still != session || it != holds {
		return nil
	}
	if until, proven := session.ProvenUntil(); proven && now < until {
		p.w.Breach("%s is gone, and its session %v is proven for %v more", holds, session.SessionID(), until.Sub(now))
	}
	return nil
}

// compare compares a copy with the servers.
func (p *program) compare(ctx context.Context, c *client.Client) (err error) {
	if p.copy == nil {
		p.copy, err = cache.New(ctx, c, ownedPath, cache.Options{})
		return err
	}
	before, then, err := p.list(ctx, c)
	if err != nil {
		return err
	}
	if err := p.copy.Sync(ctx); err != nil {
		return err
	}
	has := p.copy.Children(ownedPath)
	for _, name := range has {
		z, ok := p.copy.Get(ownedPath + "/" + name)
		if ok && z.Stat.Czxid != 0 && z.Stat.Czxid <= then && !slices.Contains(before, name) {
			p.w.Breach("machine %d has a copy with %s, which was gone before", p.machine, name)
		}
	}
	after, _, err := p.list(ctx, c)
	for _, name := range after {
		if slices.Contains(before, name) && !slices.Contains(has, name) {
			p.w.Breach("machine %d has a copy without %s, which was there before", p.machine, name)
		}
	}
	return err
}

func (p *program) list(ctx context.Context, c *client.Client) ([]string, zk.Zxid, error) {
	if err := c.Sync(ctx, ownedPath); err != nil {
		return nil, 0, err
	}
	names, stat, err := c.Children(ctx, ownedPath)
	return names, stat.Pzxid, err
}

// connected returns the sessions that have a server.
func (w *ensembleStorm) connected() (all []*client.Client) {
	for _, p := range w.programs {
		if session, _ := p.owner(); session != nil && session.State() == client.Connected {
			all = append(all, session)
		}
	}
	return all
}

// illOwned returns which ephemeral znodes of a server have no session, and which it lacks.
func (w *ensembleStorm) illOwned(r *replica.Replica) string {
	alive := map[zk.SessionID]bool{}
	for _, p := range w.programs {
		session, holds := p.owner()
		if session == nil || session.Err() != nil {
			continue
		}
		alive[session.SessionID()] = true
		if _, ok := r.Tree().Find(holds); holds != "" && !ok {
			return "lacks " + holds
		}
	}
	for _, owner := range r.Tree().EphemeralOwners() {
		if !alive[owner] {
			return fmt.Sprintf("has %v of session %v, which is gone", r.Tree().Ephemerals(owner, ""), owner)
		}
	}
	return ""
}
