// Package partition distributes partitions among the members of a group: each partition is an
// election of its own, and its leader is its owner.
//
// A Member takes a Backend, the name of the group and a function, and runs the function for each
// partition that it owns. There is no coordinator: every member watches all elections of the
// group, computes by the same rule who should own what (package balance), and carries out its own
// part.
//
//	billing/seats/0 ...      the leader of one of them is a member
//	billing/partitions/0 ... the leader of one of them owns the partition
//
// Over a backend whose Traits say Exclusive and Expires, the following always holds:
//
//	partition-P1  A partition never has two owners, and its token grows: it is an election like
//	              any other.
//	partition-P2  While there is a member and the store can be reached, every partition is owned,
//	              except for a lease and one read of the store after its owner was lost, or during
//	              the gap of a move.
//	partition-P3  When members have not changed for some time, the numbers of partitions that any
//	              two of them own differ by at most one.
//	partition-P4  A partition moves only if its owner leaves, owns more than its share, or has no
//	              seat and finds none; no more partitions move than necessary.
//	partition-P5  At most MaxMoves partitions are moving at a time, as far as members see the
//	              same. Partitions without an owner count, for two leases: if nobody has taken one
//	              by then, perhaps nobody can. But while MaxMoves partitions have no owner, for
//	              however long, an owner that stays gives up another only if a member is seen to
//	              wait for it: so a member that can take nothing costs no more than these. A
//	              partition that the store refuses even to its owner does not count for that. A
//	              partition that could not be handed over for Election.WarmLimit and two leases
//	              does not count either, and is tried again less often. None of this delays a
//	              partition that lost its owner.
//	partition-P6  A fault in one of these elections, such as a damaged record or one that nobody
//	              may write, affects only its own seat or partition. The partition still counts in
//	              the share of a member.
//	partition-P7  If a member's function is still running two leases after its leadership ended,
//	              and there is another member, the member gives up its seat, and so all its
//	              partitions, until the function has ended. Otherwise the others would leave that
//	              partition to it.
//
// The owner of a partition that is to move hands it over to the member that waits for it
// (Elector.TransferTo), after Options.Warm has returned there. On a backend that cannot hand
// over, the owner resigns.
//
// Each member observes Partitions + MembersMax elections, and has one claim for its seat and one
// for each partition that it owns or waits for.
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
	// Partitions is the number of partitions, 1 to PartitionsMax. They are numbered from 0.
	Partitions int
	// MembersMax is how many members can have a seat; further members wait for one. Default 32,
	// at most 1000.
	MembersMax int
	// MaxMoves is how many partitions may move at a time. Default 1.
	MaxMoves int
	// Warm makes this member ready for a partition while another one still
	// owns it; see election.Options.
	Warm func(ctx context.Context, partition int) error
	// OnView is called whenever this member's View changes, one call at a time, in a goroutine of
	// its own; it may keep the View. If it does not return, only Run waits for it, for a quarter
	// of the lease; of the Views that wait, the newest 16 are delivered.
	OnView func(View)
	// Election holds the options of each election. ID names this member and must differ from
	// those of all others. Health is called once for all elections, up to four times in three
	// HealthEvery. OnEvent is called with the events of all elections, one call at a time;
	// Event.Election tells which one. If it does not return, only Run waits for it, for a quarter
	// of the lease; up to 1024 events wait, and those dropped are counted in Event.Missed. Warm,
	// Priority and Once are ignored.
	Election election.Options
}

// View is what a member sees of its group.
type View struct {
	// Members are those that have a seat, in order of their names.
	Members []string
	// Owners and Tokens are the owner of each partition, empty for none, and its latest token.
	Owners []string
	Tokens []election.Token
	// Err says why one of the elections cannot be seen, nil if all can. The fields above then
	// show what was last seen of it.
	Err error
}

// Function runs for a partition, as in Elector.Run. If it returns nil, the partition is released
// for any member to take. If it returns an error by itself, the Run of the member ends. What it
// returns after its context has ended is ignored.
type Function func(ctx context.Context, partition int, lead election.Leadership) error

const (
	viewsMax = 16                     // Views that wait for OnView
	toldMin  = 500 * time.Millisecond // the least time that Run waits for OnView and OnEvent at its end
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
	leaving  chan struct{} // Leave closes it
	leaveOne sync.Once

	mu   sync.Mutex
	view View // replaced as a whole, never modified
}

// New returns a member of the named group. It does no I/O.
func New(backend election.Backend, name string, options Options) (*Member, error) {
	if err := options.setDefaults(); err != nil {
		return nil, fmt.Errorf("group %q: %w", name, err)
	}
	options.Election.Health = healthcheck.Shared(options.Election.Health)
	m := &Member{name: name, options: options, leaving: make(chan struct{})}
	if onEvent := options.Election.OnEvent; onEvent != nil {
		// An Elector that waits for its OnEvent to return has not ended, and takes no part
		// in its election until then (partition-P2). So OnEvent is called from a queue.
		m.events = eventqueue.New(onEvent, func(e *election.Event) *int { return &e.Missed })
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
		m.options.Election.ID = e.ID() // the default differs from call to call, so keep the first
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
		return fmt.Errorf("%d partitions: must be from 1 to %d: %w", o.Partitions, PartitionsMax, election.ErrInvalid)
	case o.MembersMax < 1 || o.MembersMax > membersMaxMax:
		return fmt.Errorf("at most %d members: must be from 1 to %d: %w", o.MembersMax, membersMaxMax, election.ErrInvalid)
	case o.MaxMoves < 0:
		return fmt.Errorf("at most %d moves: must be 1 or more: %w", o.MaxMoves, election.ErrInvalid)
	}
	return nil
}

// seatOptions returns the options of the elections for seats.
func (m *Member) seatOptions() election.Options {
	o := m.options.Election
	o.Warm, o.Priority, o.Once = nil, 0, true
	if m.events != nil {
		o.OnEvent = m.events.Source(func(e *election.Event) bool { return e.Kind == election.EventCampaigning },
			func(e *election.Event) bool { return e.Kind.Repeats() })
	}
	return o
}

// partitionOptions returns the options of a partition's election.
func (m *Member) partitionOptions(p int) election.Options {
	o := m.seatOptions()
	if warm := m.options.Warm; warm != nil {
		o.Warm = func(ctx context.Context) error { return warm(ctx, p) }
	}
	return o
}

// ID returns the name of this member.
func (m *Member) ID() string { return m.id }

// View returns what this member sees now, or the zero View if it has not yet read every election
// once.
func (m *Member) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// Leave gives up the member's seat and hands over its partitions, MaxMoves at a time; then Run
// returns nil. Leave does not wait. A partition that nobody takes is released, and delays the
// next one by two leases.
func (m *Member) Leave() { m.leaveOne.Do(func() { close(m.leaving) }) }

// Run takes part in the group until ctx ends, Leave has been carried out, or an error occurs that
// no retry can overcome. It returns when all functions have returned and everything is released.
// When ctx ends, everything is released at once, and Run returns the cause of ctx. A panic of a
// function propagates out of Run. A Member that has left cannot run again. An error that matches
// election.ErrRunning means that another Run of this Member has not returned.
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

// setView keeps a view, and queues it for OnView if it differs from the last one.
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

// retry returns the pause after a failure, which doubles with each failure up to RetryMax.
func (m *Member) retry(failures int) time.Duration {
	o := m.seats[0].Options()
	return min(o.Retry<<min(failures, 10), o.RetryMax)
}
