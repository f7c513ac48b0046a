package partition

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/partition/balance"
)

// refusalsMax is how many refusals to take over a partition make its owner resign. A member
// that leaves counts every failure. A member that stays counts only ErrNoCandidate, because
// on some backends no candidate is seen to wait.
const refusalsMax = 3

// run is one call of Run. The loop owns all fields; other goroutines send it reports.
type run struct {
	base     context.Context // the context of Run without its end
	member   *Member
	function Function
	reports  chan func()
	done     chan struct{} // closed when the loop has ended
	workers  sync.WaitGroup
	watchers sync.WaitGroup

	leaders []sighting // first the partitions, then the seats
	unseen  int        // how many elections have not been seen yet

	jobs    []job // one for each partition
	seat    int   // the seat that this member has or campaigns for; -1 for none
	seated  bool
	sitting context.CancelFunc // ends the campaign for the seat; nil for none
	tries   int                // how many campaigns for a seat have ended
	sitAt   time.Time          // no campaign for a seat before this time
	served  bool               // this member has had a seat or a partition

	leaving  bool
	stopping bool
	active   int // running jobs and the seat: goroutines that report their end
	err      error
	panicked any
}

// sighting is the last known state of an election.
type sighting struct {
	seen   bool // an attempt that failed counts too
	err    error
	since  time.Time // when err was first seen
	leader string
	token  election.Token
	free   time.Time // when the partition was first seen without an owner; zero while it has one
	// turn is when the move between the two members below was first allowed; zero if it was
	// not.
	turn     time.Time
	from, to string
}

// job is what this member does about one partition.
type job struct {
	cancel   context.CancelCauseFunc // ends the campaign; nil without one
	leads    bool
	lead     election.Leadership // valid if leads
	over     time.Time           // when the leadership was first seen to be over while the function still runs
	hangs    bool                // over for longer than two leases
	moving   bool
	refusals int       // refusals of other members to take the partition over
	mishaps  int       // other failed hand-overs
	failures int       // failed campaigns in a row
	refused  bool      // the store refuses it permanently, and it has had no owner since
	after    time.Time // no campaign and no hand-over before this time
}

func newRun(ctx context.Context, m *Member, function Function) *run {
	n := len(m.partitions) + len(m.seats)
	return &run{base: context.WithoutCancel(ctx), member: m, function: function, reports: make(chan func(), 64), done: make(chan struct{}),
		leaders: make([]sighting, n), unseen: n, jobs: make([]job, len(m.partitions)), seat: -1}
}

// loop runs until everything has ended.
func (r *run) loop(ctx context.Context) error {
	watching, stopWatching := context.WithCancel(r.base)
	r.watch(watching)
	ended, leaving := ctx.Done(), r.member.leaving
	for {
		began := time.Now()
		timer := r.decide()
		rest := restFactor * time.Since(began)
		if r.stopping && r.active == 0 {
			break
		}
		select {
		case report := <-r.reports:
			report()
			r.gather(rest)
		case <-ended:
			ended = nil
			r.stop(context.Cause(ctx))
		case <-leaving:
			leaving = nil
			r.leave()
		case <-timer:
		}
	}
	close(r.done)
	stopWatching()
	r.watchers.Wait()
	r.workers.Wait()
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.err
}

// A decision looks at all partitions, and when a group starts, each of them has reports. So after
// a report that follows a decision, further ones are gathered for restFactor times as long as that
// decision took. Below restLeast this is not worth a timer.
const (
	restFactor = 4
	restLeast  = time.Millisecond
)

// gather handles all reports that have arrived or arrive during the rest, so that one decision is
// enough for them.
func (r *run) gather(rest time.Duration) {
	if rest >= restLeast {
		timer := time.NewTimer(rest)
		defer timer.Stop()
		for over := false; !over; {
			select {
			case report := <-r.reports:
				report()
			case <-timer.C:
				over = true
			}
		}
	}
	for {
		select {
		case report := <-r.reports:
			report()
		default:
			return
		}
	}
}

// report sends a function to the loop, unless the loop has ended.
func (r *run) report(f func()) {
	select {
	case r.reports <- f:
	case <-r.done:
	}
}

// watch observes all elections.
func (r *run) watch(ctx context.Context) {
	for i, e := range slices.Concat(r.member.partitions, r.member.seats) {
		r.watchers.Go(func() {
			for view := range e.Observe(ctx) {
				r.report(func() { r.see(i, view) })
			}
		})
	}
}

// see records a view of an election. If the election cannot be seen now, its last known
// leader stays, and no member waits for it (partition-P6).
func (r *run) see(i int, view election.View) {
	s := &r.leaders[i]
	if !s.seen {
		r.unseen--
	}
	if s.err == nil && view.Err != nil {
		s.since = time.Now()
	}
	s.seen, s.err = true, view.Err
	if view.Err == nil {
		s.leader, s.token = view.Leader, view.Token
	}
}

// unseenLimit is for how many leases the holder of a seat that cannot be seen still counts
// as a member. In that time a member whose seat is damaged can lose it and take another
// one.
const unseenLimit = 3

// vanished reports whether the holder of a seat no longer counts as a member: the seat
// could not be seen for unseenLimit leases, although other elections could, and the holder
// owns no partition that can be seen. until is when to look again.
func (r *run) vanished(seat int, alive []string) (gone bool, until time.Time) {
	s := r.leaders[len(r.jobs)+seat]
	if s.err == nil || s.leader == "" || slices.Contains(alive, s.leader) ||
		!slices.ContainsFunc(r.leaders, func(other sighting) bool { return other.err == nil }) {
		return false, time.Time{}
	}
	until = s.since.Add(unseenLimit * r.member.seats[seat].Options().Lease)
	return !time.Now().Before(until), until
}

// stop ends all campaigns and leaderships at once; the first error is kept.
func (r *run) stop(err error) {
	if !r.stopping {
		r.stopping, r.err = true, err
	}
	for p := range r.jobs {
		r.cancel(p)
	}
	if r.sitting != nil {
		r.sitting()
	}
}

func (r *run) cancel(p int) {
	if r.jobs[p].cancel != nil {
		r.jobs[p].cancel(r.err)
	}
}

// leave gives up the seat. The partitions follow when other members wait for them.
func (r *run) leave() {
	r.leaving = true
	if r.sitting != nil {
		r.sitting()
	}
}

// decide carries out this member's part of the plan, and returns when to look again if
// nothing happens before.
func (r *run) decide() <-chan time.Time {
	if r.unseen > 0 || r.stopping {
		if r.leaving && !r.stopping {
			r.stop(nil) // this member has taken nothing yet
		}
		return nil
	}
	again := r.noteHanging()
	members, owners, next := r.group()
	next = earlier(next, again)
	r.noteFree(owners)
	r.show(members, owners)
	if r.leaving && !slices.ContainsFunc(r.jobs, func(j job) bool { return j.leads }) || r.leaving && len(members) == 0 {
		r.stop(nil)
		return nil
	}
	targets := balance.Plan(members, owners)
	next = earlier(next, earlier(r.takeSeat(r.unfit(members)), r.campaign(targets)))
	if r.seated || r.leaving || r.sitting == nil { // else it is about to get a seat
		next = earlier(next, r.moveAll(owners, targets))
	}
	if next.IsZero() {
		return nil
	}
	return time.After(time.Until(next))
}

// group returns the members, the owners of the partitions, and when to look again if
// nothing happens before. For its own seat and partitions, a member uses what it knows, not
// what it saw.
func (r *run) group() (members, owners []string, next time.Time) {
	me, alive := r.member.id, []string(nil)
	for p := range r.jobs {
		s := r.leaders[p]
		switch {
		case r.jobs[p].leads && !r.jobs[p].hangs:
			owners = append(owners, me)
		case s.leader == me:
			owners = append(owners, balance.Nobody)
		default:
			owners = append(owners, s.leader)
		}
		if s.err == nil {
			alive = append(alive, s.leader)
		}
	}
	for seat, s := range r.leaders[len(r.jobs):] {
		if s.leader == "" || s.leader == me {
			continue
		}
		gone, until := r.vanished(seat, alive)
		if !gone {
			members, next = append(members, s.leader), earlier(next, until)
		}
	}
	if r.seated && !r.leaving {
		members = append(members, me)
	}
	slices.Sort(members)
	return slices.Compact(members), owners, next
}

// noteFree records since when partitions have had no owner.
func (r *run) noteFree(owners []string) {
	for p, owner := range owners {
		switch s := &r.leaders[p]; {
		case owner != balance.Nobody:
			s.free, r.jobs[p].refused = time.Time{}, false
		case s.free.IsZero():
			s.free = time.Now()
		}
	}
}

func (r *run) show(members, owners []string) {
	view := View{Members: members, Owners: slices.Clone(owners), Tokens: make([]election.Token, len(owners))}
	for p := range view.Tokens {
		view.Tokens[p] = r.leaders[p].token
	}
	if i := slices.IndexFunc(r.leaders, func(s sighting) bool { return s.err != nil }); i >= 0 {
		view.Err = r.leaders[i].err
	}
	r.member.setView(view)
}

// takeSeat campaigns for a vacant seat, and returns when to look again. An unfit member
// gives up its seat.
func (r *run) takeSeat(unfit bool) (next time.Time) {
	if r.sitting != nil {
		if unfit { // all members may be unfit at once; the random pause spreads their return
			r.sitAt = time.Now().Add(rand.N(r.member.seats[0].Options().Lease))
		}
		if unfit || !r.seated && !r.vacant(r.seat) {
			r.sitting() // unfit, or another member was faster, or the record is damaged
		}
		return next
	}
	if r.leaving || unfit {
		return next
	}
	if time.Now().Before(r.sitAt) {
		return r.sitAt
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(r.member.id))
	seats := len(r.member.seats)
	for i := range seats {
		seat := (int(hash.Sum32()%uint32(seats)) + r.tries + i) % seats
		if r.vacant(seat) {
			r.sit(seat)
			break
		}
	}
	return next
}

// vacant reports whether this member may campaign for a seat: it has no other holder and
// can be seen. If no seat can be seen, each one may be tried. takeSeat ends a campaign for
// a seat that is no longer vacant, because an Elector that the store has served does not
// end by itself when the record is damaged.
func (r *run) vacant(seat int) bool {
	seats := r.leaders[len(r.jobs):]
	s := seats[seat]
	if s.err != nil && slices.ContainsFunc(seats, func(other sighting) bool { return other.err == nil }) {
		return false
	}
	return s.leader == "" || s.leader == r.member.id
}

func (r *run) sit(seat int) {
	ctx, cancel := context.WithCancel(r.base)
	r.seat, r.sitting = seat, cancel
	r.start(func() error {
		return r.member.seats[seat].Run(ctx, func(ctx context.Context, _ election.Leadership) error {
			r.report(func() { r.seated, r.served = true, true })
			<-ctx.Done()
			r.report(func() { r.seated = false })
			return nil
		})
	}, func(err error) {
		cancel()
		r.seated, r.sitting = false, nil
		r.tries++
		switch {
		case !errors.Is(err, election.ErrPermanent):
		case !isRefusal(err) && !isLost(err), !r.served && r.tries >= len(r.member.seats):
			r.stop(err)
		case r.served:
			r.sitAt = time.Now().Add(r.member.retry(r.tries))
		}
	})
}

// isRefusal reports whether the store says that it refuses an election for good. The fault
// may concern only this election, or may pass (see election.Permanent). Each seat and each
// partition has an Elector of its own, so the store may have served a member through one
// and refuse it through another (partition-P6).
func isRefusal(err error) bool {
	return errors.Is(err, election.ErrPermanent) && !errors.Is(err, election.ErrClosed) && !errors.Is(err, election.ErrLost)
}

// start runs f in a goroutine; the loop waits for its end and then calls ended.
func (r *run) start(f func() error, ended func(error)) {
	r.active++
	r.workers.Go(func() {
		var err error
		var panicked any
		func() {
			defer func() { panicked = recover() }()
			err = f()
		}()
		r.report(func() {
			r.active--
			if panicked != nil {
				r.panicked = panicked
				r.stop(nil)
			}
			ended(err)
		})
	})
}

// campaign starts and ends campaigns for partitions, and returns when to look again.
func (r *run) campaign(targets []string) (next time.Time) {
	now := time.Now()
	for p := range r.jobs {
		j := &r.jobs[p]
		switch wanted := targets[p] == r.member.id; {
		case wanted && j.cancel == nil && now.Before(j.after):
			next = earlier(next, j.after)
		case wanted && j.cancel == nil:
			r.stand(p)
		case !wanted && j.cancel != nil && !j.leads:
			j.cancel(nil)
		}
	}
	return next
}

// stand campaigns for a partition, and runs the function while it leads.
func (r *run) stand(p int) {
	ctx, cancel := context.WithCancelCause(r.base)
	r.jobs[p].cancel = cancel
	r.start(func() error {
		return r.member.partitions[p].Run(ctx, func(ctx context.Context, lead election.Leadership) error {
			r.report(func() { r.elected(p, lead) })
			if err := r.function(ctx, p, lead); ctx.Err() == nil {
				return err
			}
			return nil // an error after the context has ended is ignored
		})
	}, func(err error) {
		stopped := ctx.Err() != nil
		cancel(nil)
		r.stood(p, err, stopped)
	})
}

func (r *run) elected(p int, lead election.Leadership) {
	j := &r.jobs[p]
	*j = job{cancel: j.cancel, leads: true, lead: lead}
	r.served = true
	r.leaders[p].token = max(r.leaders[p].token, lead.Token())
}

// noteHanging marks the functions that still run two leases after their leaderships were
// seen to be over, and returns when to look again.
func (r *run) noteHanging() (next time.Time) {
	o, now := r.member.seats[0].Options(), time.Now()
	instant := o.Clock.Now()
	for p := range r.jobs {
		j := &r.jobs[p]
		if !j.leads || j.hangs || instant < j.lead.Deadline() {
			continue
		}
		if j.over.IsZero() {
			j.over = now
		}
		if at := j.over.Add(2 * o.Lease); now.Before(at) {
			next = earlier(next, at)
		} else {
			j.hangs = true
		}
	}
	return next
}

// unfit reports whether a function of this member hangs while there are other members. They
// leave its partition to this member for as long as it has a seat (partition-P7).
func (r *run) unfit(members []string) bool {
	return slices.ContainsFunc(r.jobs, func(j job) bool { return j.hangs }) &&
		slices.ContainsFunc(members, func(m string) bool { return m != r.member.id })
}

// stood records how a campaign or a leadership has ended.
func (r *run) stood(p int, err error, stopped bool) {
	j := &r.jobs[p]
	failures := j.failures
	passing := isLost(err) || !j.leads && isRefusal(err)
	refused := !j.leads && (j.refused || isRefusal(err))
	*j = job{failures: failures + 1, after: time.Now().Add(r.member.retry(failures)), refused: refused}
	switch {
	case stopped:
		*j = job{refused: refused}
		if err != nil && !errors.Is(err, context.Canceled) && !passing {
			r.stop(fmt.Errorf("partition %d: %w", p, err))
		}
	case err != nil && !passing:
		r.stop(fmt.Errorf("partition %d: %w", p, err))
	}
}

// isLost reports whether a leadership was lost although the store keeps its promises.
func isLost(err error) bool {
	var lost *election.LostError
	return errors.As(err, &lost) && lost.Reason != election.ReasonTokenStale
}

// moveAll hands over the partitions that may move now, and returns when to look again.
//
// Some partitions do not count against MaxMoves. One has had no owner for longer than it
// takes to replace an owner that died: perhaps no member can take it (partition-P6). While
// there are such partitions, a further one goes only to a member that is seen to wait;
// otherwise a member that can take nothing would cost the others its whole share, one
// partition after the other (partition-P5). Another could not be handed over for long: its
// new owner may never be able to warm up.
func (r *run) moveAll(owners, targets []string) (next time.Time) {
	now, limit, lease := time.Now(), r.member.options.MaxMoves, r.member.seats[0].Options().Lease
	blind := slices.Clone(owners) // decides about moves to a member that is not seen to wait
	for p := range owners {
		s, j := &r.leaders[p], &r.jobs[p]
		over := s.free.Add(2 * lease)
		switch {
		case s.err != nil && !j.leads: // it may be moving or not, perhaps for long
			owners[p], blind[p] = targets[p], targets[p]
		case owners[p] != balance.Nobody:
		case now.Before(over):
			next = earlier(next, over)
		default:
			owners[p] = targets[p]
			if j.refused || r.leaving {
				blind[p] = targets[p]
			}
		}
	}
	resigning := balance.Moves(blind, targets, limit)
	var moves []int
	patience := r.moveLimit()
	for p := range owners {
		s := &r.leaders[p]
		if s.from != owners[p] || s.to != targets[p] {
			s.from, s.to, s.turn = owners[p], targets[p], time.Time{}
		}
		switch over := s.turn.Add(patience); {
		case s.turn.IsZero():
		case now.Before(over):
			next = earlier(next, over)
		default:
			owners[p], moves = targets[p], append(moves, p)
		}
	}
	for _, p := range balance.Moves(owners, targets, limit) {
		if s := &r.leaders[p]; s.turn.IsZero() {
			s.turn, next = now, earlier(next, now.Add(patience))
		}
		moves = append(moves, p)
	}
	for _, p := range moves {
		next = earlier(next, r.move(p, targets[p], slices.Contains(resigning, p)))
	}
	return next
}

// moveLimit is how long a partition that may move counts as moving.
func (r *run) moveLimit() time.Duration {
	o := r.member.partitions[0].Options()
	return o.WarmLimit + 2*o.Lease
}

// move hands over a partition that this member owns, and returns when to try again. If it
// may not resign, and no candidate is seen to wait, this member continues to lead.
func (r *run) move(p int, to string, mayResign bool) (next time.Time) {
	j := &r.jobs[p]
	if !j.leads || j.hangs || j.moving {
		return time.Time{}
	}
	if time.Now().Before(j.after) {
		return j.after
	}
	j.moving = true
	e, token, resign := r.member.partitions[p], j.lead.Token(), j.refusals >= refusalsMax
	limit := 2 * e.Options().Lease
	r.workers.Go(func() {
		ctx, cancel := context.WithTimeout(r.base, limit)
		defer cancel()
		err := handOver(ctx, e, to, resign, mayResign)
		r.report(func() { r.moved(p, token, err) })
	})
	return time.Time{}
}

func handOver(ctx context.Context, e *election.Elector, to string, resign, mayResign bool) error {
	if !resign || !mayResign {
		if err := e.TransferTo(ctx, to); !mayResign || !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return e.Resign(ctx)
}

// moved records the result of a hand-over. After a success nothing is to be done: the
// leadership has ended or is about to.
func (r *run) moved(p int, token election.Token, err error) {
	j := &r.jobs[p]
	if err == nil || !j.leads || j.lead.Token() != token {
		return
	}
	pause := r.member.retry(j.refusals + j.mishaps)
	if turn := r.leaders[p].turn; !turn.IsZero() && time.Since(turn) >= r.moveLimit() {
		pause = r.moveLimit() // as many partitions may wait as the new owner's share
	}
	j.moving, j.after = false, time.Now().Add(pause)
	if r.leaving || errors.Is(err, election.ErrNoCandidate) {
		j.refusals++
	} else {
		j.mishaps++
	}
}

// earlier returns the earlier of two times; zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
