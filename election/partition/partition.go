// Package partition shares partitions out among the members of a group: each
// partition is an election of its own, and its leader is its owner.
//
// In go a Backend, the name of the group and a function; the function runs for
// each partition that this member owns. Nobody coordinates: every member
// watches all elections of the group, works out by the same rule who should own
// what (package balance), and does its own part of it.
//
//	billing/seats/0 ...      the leader of one of them is a member
//	billing/partitions/0 ... the leader of one of them owns the partition
//
// What always holds, over a backend whose Traits say Exclusive and Expires:
//
//	partition-P1  Never two owners of a partition, and its token grows: it is an
//	              election like any other.
//	partition-P2  While there is a member and the store can be reached, every
//	              partition is owned, except for a lease and a look at the store
//	              after its owner was lost, or the gap of a move.
//	partition-P3  When members have not changed for some time, what two of them
//	              own differs by at most one.
//	partition-P4  A partition moves only if its owner leaves, owns more than its
//	              share, or has no seat and finds none; as few move as will do.
//	partition-P5  At most MaxMoves are on the move at a time, as far as members
//	              see the same. Those without an owner count, for two leases:
//	              what nobody has taken by then perhaps nobody can. But while as
//	              many as MaxMoves have none, for however long, an owner that
//	              stays gives up no other unless somebody is seen to wait for it:
//	              a member that can take nothing costs no more than these. What
//	              the store refuses to the owner, too, does not count for that.
//	              What could not be handed over for Election.WarmLimit and two
//	              leases does not count either, and is tried again more rarely.
//	              What lost its owner is not held up by any of this.
//	partition-P6  What is wrong with one of these elections, such as a record
//	              that is damaged, or one that nobody may write, costs its seat or
//	              its partition, no other. It still is in the share of a member.
//	partition-P7  A member whose function has not ended two leases after its
//	              leadership has gives its seat up, and so all its partitions, until
//	              it has, if there is another member: that one would leave the
//	              partition to it.
//
// The owner of a partition that is to move hands it over to the member that
// waits for it (Elector.TransferTo), after Options.Warm has returned
// there; on a backend that cannot hand over it resigns.
//
// The cost: each member observes Partitions + MembersMax elections, and has a
// claim for its seat and for each partition that it owns or waits for.
package partition

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/eventqueue"
	"github.com/conclave-project/conclave/internal/healthcheck"
)

// Limits and defaults of Options.
const (
	PartitionsMax     = 10_000
	MembersMaxDefault = 32
	membersMaxMax     = 1000
	MaxMovesDefault   = 1
)

// Options of a Member. All members of a group have the same Partitions,
// MembersMax and MaxMoves.
type Options struct {
	// Partitions is how many there are: 1 to PartitionsMax, numbered from 0.
	Partitions int
	// MembersMax is how many members there may be: those above wait for a
	// seat. Default 32, at most 1000.
	MembersMax int
	// MaxMoves is how many partitions may move at a time. Default 1.
	MaxMoves int
	// Warm makes this member ready for a partition while another one still
	// owns it; see election.Options.
	Warm func(ctx context.Context, partition int) error
	// OnView is called with the changes of what this member sees, one call at a
	// time, in a goroutine of its own; it may keep the View. If it does not return,
	// nothing waits for it but Run, for a quarter of the lease; of the Views that wait
	// for it the newest 16 are told.
	OnView func(View)
	// Election is how each election is held. Its ID names this member and
	// differs from those of all others. Its Health is called once for all
	// elections, up to four times in three HealthEvery, its OnEvent with the events
	// of all, one call at a time, with Event.Election saying of which. If that does
	// not return, nothing waits for it but Run, for a quarter of the lease; what it
	// misses of 1024 events is counted in Event.Missed. Warm, Priority and Once are ignored.
	Election election.Options
}

// View is what a member sees of its group.
type View struct {
	// Members that have a seat, in order of their names.
	Members []string
	// Owners of the partitions, empty for none, and their latest tokens.
	Owners []string
	Tokens []election.Token
	// Err says why one of the elections cannot be seen, nil if all can. What was
	// last seen of it stands above.
	Err error
}

// Function is what runs for a partition, as in Elector.Run. One that returns
// nil releases the partition, for any member to take. One that returns an error
// by itself ends the Run of the member; what it returns once its context has ended is
// ignored.
type Function func(ctx context.Context, partition int, lead election.Leadership) error

const (
	viewsMax = 16                     // that wait for OnView
	toldMin  = 500 * time.Millisecond // the least that Run waits until all is told
)

// Member is one candidate of a group. Its methods may be called by several
// goroutines.
type Member struct {
	name       string
	options    Options
	id         string
	seats      []*election.Elector
	partitions []*election.Elector
	events     *eventqueue.Queue[election.Event] // nil without an OnEvent
	views      *eventqueue.Queue[View]           // nil without an OnView

	running  atomic.Bool
	leaving  chan struct{} // closed by Leave
	leaveOne sync.Once

	mu   sync.Mutex
	view View // replaced, never changed
}

// New returns a member of the named group. It does no I/O.
func New(backend election.Backend, name string, options Options) (*Member, error) {
	if err := options.setDefaults(); err != nil {
		return nil, fmt.Errorf("group %q: %w", name, err)
	}
	options.Election.Health = healthcheck.Shared(options.Election.Health)
	m := &Member{name: name, options: options, leaving: make(chan struct{})}
	if onEvent := options.Election.OnEvent; onEvent != nil {
		// An Elector is not over before its OnEvent has returned, and one that is not over
		// takes no part in its election (partition-P2).
		m.events = eventqueue.New(onEvent, func(e *election.Event) *int { return &e.Missed })
		m.options.Election.OnEvent = m.events.Put
	}
	if options.OnView != nil {
		m.views = eventqueue.New(options.OnView, func(*View) *int { return new(int) }).Bounded(viewsMax)
	}
	for i := range options.MembersMax {
		e, err := election.New(backend, name+"/seats/"+strconv.Itoa(i), m.seatOptions())
		if err != nil {
			return nil, err
		}
		m.seats = append(m.seats, e)
		m.options.Election.ID = e.ID() // the default differs from call to call
	}
	m.id = m.options.Election.ID
	for p := range options.Partitions {
		e, err := election.New(backend, name+"/partitions/"+strconv.Itoa(p), m.partitionOptions(p))
		if err != nil {
			return nil, err
		}
		m.partitions = append(m.partitions, e)
	}
	return m, nil
}

func (o *Options) setDefaults() error {
	if o.MembersMax == 0 {
		o.MembersMax = MembersMaxDefault
	}
	if o.MaxMoves == 0 {
		o.MaxMoves = MaxMovesDefault
	}
	switch {
	case o.Partitions < 1 || o.Partitions > PartitionsMax:
		return fmt.Errorf("%d partitions: must be from 1 to %d", o.Partitions, PartitionsMax)
	case o.MembersMax < 1 || o.MembersMax > membersMaxMax:
		return fmt.Errorf("at most %d members: must be from 1 to %d", o.MembersMax, membersMaxMax)
	case o.MaxMoves < 0:
		return fmt.Errorf("at most %d moves: must be 1 or more", o.MaxMoves)
	}
	return nil
}

// seatOptions are those of the elections for seats.
func (m *Member) seatOptions() election.Options {
	o := m.options.Election
	o.Warm, o.Priority, o.Once = nil, 0, true
	return o
}

// partitionOptions are those of a partition's election.
func (m *Member) partitionOptions(p int) election.Options {
	o := m.seatOptions()
	if warm := m.options.Warm; warm != nil {
		o.Warm = func(ctx context.Context) error { return warm(ctx, p) }
	}
	return o
}

// ID returns the name of this member.
func (m *Member) ID() string { return m.id }

// View returns what this member sees now, the zero View before it has looked at
// everything once.
func (m *Member) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// Leave gives the member's seat up and hands its partitions over, MaxMoves at a
// time; then Run returns nil. It does not wait. What nobody takes is released, and
// holds the next up for two leases.
func (m *Member) Leave() { m.leaveOne.Do(func() { close(m.leaving) }) }

// Run takes part in the group until ctx ends, Leave has been carried out, or an
// error that no retry can overcome, and returns when all functions have
// returned and all is released. When ctx ends everything is released at
// once, and the cause of ctx is returned. A panic of a function comes out of
// Run. A Member that has left does not run again. An error that matches
// election.ErrRunning says that another Run of this Member has not returned.
func (m *Member) Run(ctx context.Context, function Function) error {
	if !m.running.CompareAndSwap(false, true) {
		return fmt.Errorf("group %q: %w", m.name, election.ErrRunning)
	}
	defer m.running.Store(false)
	limit := max(m.seats[0].Options().Lease/4, toldMin)
	if m.events != nil {
		defer m.events.WaitFor(limit)
	}
	if m.views != nil {
		defer m.views.WaitFor(limit)
	}
	return newRun(ctx, m, function).loop(ctx)
}

// setView keeps a view, and tells it, if it differs from the last one.
func (m *Member) setView(view View) {
	m.mu.Lock()
	same := slices.Equal(view.Members, m.view.Members) && slices.Equal(view.Owners, m.view.Owners) &&
		slices.Equal(view.Tokens, m.view.Tokens) && fmt.Sprint(view.Err) == fmt.Sprint(m.view.Err)
	if !same {
		m.view = view
	}
	m.mu.Unlock()
	if !same && m.views != nil {
		m.views.Put(view)
	}
}

// retry is the pause after a failure, which doubles with each up to RetryMax.
func (m *Member) retry(failures int) time.Duration {
	o := m.seats[0].Options()
	return min(o.Retry<<min(failures, 10), o.RetryMax)
}
