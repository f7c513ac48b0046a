package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/client/recipes"
	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/zk"
)

// The paths of the recipes.
const (
	stormLock    = "/s/lock"
	stormRW      = "/s/rw"
	stormQueue   = "/s/queue"
	stormCounter = "/s/counter"
	stormParty   = "/s/party"
	stormRecord  = "/record" // written through the lock
)

// stormRecipes is what each program does, over and over again.
var stormRecipes = []struct {
	name  string
	once  func(p *program, ctx context.Context, c *client.Client) error
	pause time.Duration // before the next time, at most
}{
	{"lock", (*program).lock, 20 * time.Millisecond},
	{"rw", (*program).readOrWrite, 20 * time.Millisecond},
	{"put", (*program).putItem, 400 * time.Millisecond},
	{"take", (*program).takeItem, 300 * time.Millisecond},
	{"count", (*program).count, 400 * time.Millisecond},
	{"party", (*program).party, 100 * time.Millisecond},
}

// program uses all recipes at once over one session, and over a new session when that has ended, on
// a machine of its own.
type program struct {
	w       *recipesStorm
	name    string
	machine int
	clock   clock.Clock
	life    context.Context // ends when the program is to end
	over    func()
	leave   chan struct{} // of capacity 1: the program is to close its session
	dead    chan struct{} // closed when the program vanishes
	ended   sync.WaitGroup

	mu     sync.Mutex
	random *rand.Rand
	items  int
}

func (p *program) start() {
	p.dead, p.leave = make(chan struct{}), make(chan struct{}, 1)
	p.life, p.over = context.WithCancel(context.Background())
	p.ended.Go(p.run)
}

// die stops the program at once: nothing of it runs any more.
func (p *program) die() {
	p.w.mu.Lock()
	close(p.dead)
	for _, s := range append(p.w.spans, p.w.parties...) {
		if s.who == p.name && s.to.IsZero() {
			s.to, s.stays = time.Now(), true
		}
	}
	p.w.mu.Unlock()
	p.over()
}

// close makes the program close its session in the middle of everything that it does.
func (p *program) close() {
	select {
	case p.leave <- struct{}{}:
	default: // it has been told already
	}
}

func (p *program) below(n int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.random.Int64N(n)
}

// awhile returns some time below the limit.
func (p *program) awhile(limit time.Duration) time.Duration {
	return time.Duration(p.below(int64(limit)))
}

// run uses one session after another.
func (p *program) run() {
	for p.life.Err() == nil {
		c, err := client.Dial(p.life, p.w.ensemble.Addresses(), client.Options{Dialer: p.w.ensemble.Net.Dialer(p.machine),
			Clock: p.clock, Seed: uint64(p.below(1<<62)) | 1, SessionTimeout: time.Second << p.below(3)})
		if err != nil {
			continue // its session ended before it began, or its life did
		}
		_, _, _ = c.Create(p.life, stormRecord, nil, client.CreateOptions{}) // fails if it exists
		var all sync.WaitGroup
		all.Go(func() {
			select {
			case <-p.leave:
			case <-p.life.Done():
			case <-c.Done():
			}
			_ = c.Close()
		})
		for _, one := range stormRecipes {
			all.Go(func() {
				for p.life.Err() == nil && c.Err() == nil {
					p.do(c, one.name, one.once)
					select {
					case <-time.After(p.awhile(one.pause)):
					case <-p.life.Done():
					case <-c.Done():
					}
				}
			})
		}
		all.Wait()
	}
}

// do runs a recipe once, and sometimes gives it up.
func (p *program) do(c *client.Client, name string, once func(*program, context.Context, *client.Client) error) {
	ctx, cancel := context.WithCancel(p.life)
	defer cancel()
	if name != "count" && !p.w.quiet.Load() && p.below(3) == 0 { // few counts are to be unsure
		limit := p.awhile(300 * time.Millisecond)
		defer time.AfterFunc(limit, cancel).Stop()
	}
	err := once(p, ctx, c)
	if err == nil {
		p.w.mu.Lock()
		p.w.done[p.name+" "+name]++
		p.w.mu.Unlock()
	} else if ctx.Err() == nil && c.Err() == nil && !errors.Is(err, zk.ErrClosing) && !errors.Is(err, zk.ErrConnectionLoss) &&
		!errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, recipes.ErrLost) && !errors.Is(err, recipes.ErrLocked) &&
		!errors.Is(err, recipes.ErrGone) {
		p.w.Breach("%s of %s: %v", name, p.name, err)
	}
}

// begin notes that a span begins.
func (p *program) begin(s span) *span {
	s.who, s.from = p.name, time.Now()
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	select {
	case <-p.dead: // nothing of the program runs any more
		return &s
	default:
	}
	p.w.spans = append(p.w.spans, &s)
	return &s
}

func (p *program) finish(s *span) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if s.to.IsZero() {
		s.to = time.Now()
	}
}

// lock gets the lock, writes through it, and holds it for a while or until it is lost.
func (p *program) lock(ctx context.Context, c *client.Client) error {
	l := recipes.NewLock(c, stormLock, recipes.Options{})
	acquire := l.Acquire
	if p.below(4) == 0 {
		acquire = l.TryAcquire
	}
	held, err := acquire(ctx)
	if err != nil {
		return err
	}
	s := p.begin(span{of: stormLock, token: held.Token()})
	p.record(ctx, held)
	return p.hold(s, held)
}

// record writes the token through the lock.
func (p *program) record(ctx context.Context, held *recipes.Held) {
	token := held.Token()
	ctx, cancel := held.Context(ctx)
	defer cancel()
	results, err := held.Multi(ctx, client.SetOp(stormRecord, strconv.AppendInt(nil, int64(token), 10), -1))
	if err == nil {
		p.w.mu.Lock()
		p.w.writes = append(p.w.writes, write{results[0].Stat.Version, token})
		p.w.mu.Unlock()
	}
}

// hold holds a lock for a while, or until it is lost, and releases it.
func (p *program) hold(s *span, held *recipes.Held) error {
	defer p.finish(s)
	limit := 100 * time.Millisecond
	if p.below(4) == 0 && !p.w.quiet.Load() {
		limit = 6 * time.Second // or until it is lost
	}
	select {
	case <-time.After(p.awhile(limit)):
	case <-p.dead:
		return nil
	case <-held.Lost():
		return nil
	}
	p.finish(s) // before the request
	ctx, cancel := context.WithTimeout(context.Background(), p.awhile(2*time.Second))
	defer cancel()
	_ = held.Release(ctx)
	return nil
}

func (p *program) readOrWrite(ctx context.Context, c *client.Client) error {
	l, s := recipes.NewRWLock(c, stormRW, recipes.Options{}), span{of: stormRW}
	acquire := l.AcquireWrite
	switch p.below(6) {
	case 0:
		acquire = l.TryAcquireWrite
	case 1:
		s.shared, acquire = true, l.TryAcquireRead
	case 2, 3:
		s.shared, acquire = true, l.AcquireRead
	}
	held, err := acquire(ctx)
	if err != nil {
		return err
	}
	s.token = held.Token()
	return p.hold(p.begin(s), held)
}

func (p *program) putItem(ctx context.Context, c *client.Client) error {
	p.mu.Lock()
	p.items++
	item := fmt.Sprint(p.name, "-", p.items)
	p.mu.Unlock()
	err := recipes.NewQueue(c, stormQueue, recipes.Options{}).Put(ctx, []byte(item))
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.put[item] = client.OutcomeOf(err)
	if p.w.put[item] == client.Unknown {
		return nil // as promised
	}
	return err
}

func (p *program) takeItem(ctx context.Context, c *client.Client) error {
	item, err := recipes.NewQueue(c, stormQueue, recipes.Options{}).Take(ctx)
	if item != nil {
		p.w.mu.Lock()
		p.w.taken[string(item)] = append(p.w.taken[string(item)], client.OutcomeOf(err))
		p.w.mu.Unlock()
	}
	return err
}

func (p *program) count(ctx context.Context, c *client.Client) error {
	number, err := recipes.NewCounter(c, stormCounter, recipes.Options{}).Add(ctx, 1)
	p.w.mu.Lock()
	other := p.w.counted[number]
	switch client.OutcomeOf(err) {
	case client.Applied:
		p.w.counted[number] = p.name
	case client.Unknown:
		p.w.unsure++
	}
	p.w.mu.Unlock()
	if err == nil && other != "" {
		p.w.Breach("%s and %s have both number %d", p.name, other, number)
	}
	return err
}

// party enters a double barrier and leaves it.
func (p *program) party(ctx context.Context, c *client.Client) error {
	s := &span{of: stormParty, who: p.name, from: time.Now()}
	p.w.mu.Lock()
	p.w.parties = append(p.w.parties, s)
	p.w.mu.Unlock()
	err := p.enterAndLeave(ctx, c, s)
	p.w.mu.Lock()
	s.stays = s.stays || err != nil
	p.w.mu.Unlock()
	p.finish(s)
	return err
}

func (p *program) enterAndLeave(ctx context.Context, c *client.Client, s *span) error {
	b := recipes.NewDoubleBarrier(c, stormParty, p.w.partySize, recipes.Options{})
	if err := b.Enter(ctx); err != nil {
		return err
	}
	p.w.checkParty(s)
	select {
	case <-time.After(p.awhile(100 * time.Millisecond)):
	case <-p.life.Done():
	}
	return b.Leave(ctx)
}
