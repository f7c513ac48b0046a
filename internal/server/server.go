package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/audit"
	"github.com/conclave-project/conclave/internal/ports"
	"github.com/conclave-project/conclave/internal/replica"
)

// Server is one running server. New recovers its data, and Run serves.
type Server struct {
	cfg                      Config
	replica                  *replica.Replica
	reader                   *replica.Reader
	clients                  [clientPorts]clientPort
	quorumPort, electionPort *ports.Ports // nil: the server is standalone
	observerPort             *ports.Ports // nil: it does not serve observers as a follower
	inbox                    inbox
	disk                     *disk
	saver                    *saver
	audit                    *audit.Log // nil: none is written
	trace                    *tracer    // nil: nothing is traced
	peers                    *peers     // nil: the server is standalone
	snaps                    *snapshots
	conns                    conns
	poller                   poller
	stats                    stats
	busy                     busy
	meters                   meters
	received                 received
	place                    place
	startMs                  int64
	loopMs                   int64 // when the loop began its step; of the loop
	digestToldMs             int64 // when a differing digest was last logged; of the loop
	recovery                 Recovery
	spareWork                []diskWork // of the loop
	lent                     int        // loans given in this step; of the loop

	questions chan func() // calls for the loop, see inspect

	// closeGrace is how long a client may take to read what comes before the end: a writer must
	// not wait for ever for one that does not read.
	closeGrace time.Duration

	inFlight      atomic.Int64 // requests that the loop has not answered yet
	requestBytes  atomic.Int64 // their memory, except that of the long ones
	inFlightBytes atomic.Int64 // of records for the disk
	requests      budget       // of long requests
	answers       budget       // of long answers that are being made
	slots         budget       // requests that the loop may have, if a throttle bounds them
	largeBytes    atomic.Int64 // of large requests
	handshakes    handshakes
	reports       reports
	connTokens    connTokens
	paces         paces
	identityConns identityConns
	peerBytes     atomic.Int64  // bytes in the inbox that came from other servers
	peersEased    chan struct{} // a token when there is space for more
	behind        behind        // since when other servers' messages have waited to get there
	outboxBytes   atomic.Int64  // in all outboxes, and with their writers
	log           *logQueue
	laggards      laggards
	unfinished    laggards // see conn.begins
	many          struct { // about outboxes none of which is crowded
		sync.Mutex
		againMs int64 // when they may be examined again
	}
	diskFull atomic.Bool

	permittedMs atomic.Int64 // until when the oracle permits this server to go on alone; 0: it does not

	leads  atomic.Bool // clients are served, and this server leads
	serves atomic.Bool // clients are served

	longestData atomic.Int64 // Tree.LongestData at the end of the last step

	traceMask atomic.Int64

	stop   context.CancelCauseFunc // ends Run
	done   context.Context
	closed sync.Once
	tasks  sync.WaitGroup
}

// New opens and recovers the data directory and listens on the client port. It does not serve
// yet. Errors name the file or address that is wrong.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg, closeGrace: 5 * time.Second}
	s.log, s.cfg.Logger = logAside(cfg.Logger)
	s.place.told = map[string]int64{}
	s.trace = newTracer(&s.cfg)
	s.done, s.stop = context.WithCancelCause(context.Background())
	s.inbox.init(s.monoMs)
	s.requests.init(requestBudgetMax)
	s.answers.init(answerBudgetMax)
	s.slots.init(int64(max(0, cfg.Throttle.RequestsMax)))
	s.connTokens.init(cfg.Throttle.Conns, s.monoMs())
	s.questions, s.peersEased = make(chan func()), make(chan struct{}, 1)
	s.conns.init()
	s.saver = newSaver()
	s.startMs = s.monoMs()
	s.traceMask.Store(traceMaskDefault)
	if err := s.cfg.check(); err != nil {
		return nil, err
	}
	if err := s.openAudit(); err != nil {
		return nil, err
	}
	err := s.recover()
	if err == nil {
		err = s.listen()
	}
	if err := s.auditStart(err); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (c Config) withDefaults() Config {
	if c.SessionMin <= 0 {
		c.SessionMin = 2 * c.TickTime
	}
	if c.SessionMax <= 0 {
		c.SessionMax = 20 * c.TickTime
	}
	if c.Ensemble == nil { // as in ZooKeeper: one file may be used for an ensemble and for a standalone server
		c.LocalSessions, c.UpgradeSessions, c.NoClientsOfLeader = false, false, false
	}
	return c
}

// errStopped is the reason of an orderly stop, which ends the tasks.
var errStopped = errors.New("server stopped")

// Run serves until ctx ends, which is an orderly stop and no error, or until something fatal
// happens. It returns when everything has ended. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	defer s.auditStop()
	unhook := context.AfterFunc(ctx, func() { s.stop(errStopped) })
	defer unhook()
	s.task(s.runDisk)
	s.task(s.runSaver)
	s.task(s.runTicks)
	s.task(s.runPurges)
	s.pollIdle()
	s.acceptClients()
	if err := s.connectPeers(); err != nil {
		s.fail(err)
	}
	s.runLoop()
	s.conns.closeAll()
	s.poller.close()
	s.peers.close()
	s.closeClientPorts()
	s.disk.stop()
	s.saver.end()
	s.tasks.Wait()
	if err := context.Cause(s.done); !errors.Is(err, errStopped) {
		return err
	}
	return s.disk.err
}

// task runs f in a goroutine that Run waits for.
func (s *Server) task(f func()) {
	s.tasks.Add(1)
	s.run(f)
}

// run is task for a goroutine that is already counted.
func (s *Server) run(f func()) {
	go func() {
		defer s.tasks.Done()
		f()
	}()
}

// fail ends the server with a reason (server-H2).
func (s *Server) fail(err error) { s.stop(err) }

func (s *Server) close() {
	s.closed.Do(func() {
		s.closeClientPorts()
		s.closePeerListeners()
		if s.disk != nil {
			if err := s.disk.data.Close(); err != nil && s.disk.err == nil {
				s.disk.err = err
			}
		}
		if s.audit != nil {
			s.audit.Close()
		}
		s.log.WaitFor(logWaitMax)
	})
}

func (s *Server) listen() error {
	if err := s.listenForClients(); err != nil {
		return err
	}
	return s.listenForPeers()
}

func (s *Server) monoMs() int64 { return s.cfg.Clock.Now().Millis() }

func (s *Server) now() replica.Now {
	return replica.Now{MonoMs: s.monoMs(), WallMs: s.cfg.Wall().UnixMilli(), PermittedMs: s.permittedMs.Load()}
}

// runTicks tells the loop that time has passed, at least four times per tick, and often enough
// for the search for containers and TTL znodes.
func (s *Server) runTicks() {
	const least = 10 * time.Millisecond
	step := min(max(s.cfg.TickTime/4, least), time.Second)
	if s.cfg.ReapInterval > 0 {
		step = min(step, max(s.cfg.ReapInterval, least))
	}
	for {
		timer := s.cfg.Clock.Timer(s.cfg.Clock.Now().Add(step))
		select {
		case <-timer.C():
			s.inbox.put(replica.Event{Kind: replica.EventTick})
			s.disk.signal() // the disk then checks whether its files are there
			s.expireHandshakes()
			s.tellBusy()
			s.tellStalled()
		case <-s.done.Done():
			timer.Stop()
			return
		}
	}
}
