package server

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/peernet"
	"github.com/conclave-project/conclave/internal/ports"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/vfs"
	"github.com/conclave-project/conclave/internal/wire"
)

// Config is everything a server is started with, in the groups in which the reader of
// zoo.cfg has its keys. Default gives ZooKeeper's defaults; only DataDir must be set.
type Config struct {
	PlaceConfig
	ClientConfig
	StorageConfig
	EnsembleConfig
	Auth  auth.Rules
	Audit AuditConfig
	Trace TraceConfig

	// SASL begins an exchange with a client that asks for one, on the goroutine of its
	// connection. Nil: no client can prove itself so, and none is asked to.
	SASL         func() sasl.Server
	SASLOptional bool // allowSaslFailedClients: a client that fails may go on as nobody

	Commands    Commands            // answers four-letter words; nil answers none
	Backups     func() BackupReport // what the backups of this server have come to; nil if it takes none
	RoleChanged func(Role)          // told by the loop, which waits for it; nil if nobody wants to know

	Clock      clock.Clock
	Wall       func() time.Time
	Logger     *slog.Logger
	SessionKey [16]byte // makes the ids of sessions; zero draws one at each start. For tests

	// Listen opens the ports for servers; nil: that of package net. For tests in a bubble, where no
	// goroutine may wait for a socket: with it each idle connection has a goroutine.
	Listen ports.Listen
}

// PlaceConfig is where data is and where clients connect.
type PlaceConfig struct {
	FS         vfs.FS
	DataDir    string       // snapshots and epochs, in its version-2
	DataLogDir string       // transaction log; "" is DataDir
	ClientAddr string       // host:port of the client port; "" opens none
	SecureAddr string       // host:port of the client port for TLS; "" opens none
	Listener   net.Listener // instead of ClientAddr, for tests
	// SecureClients makes the connections of a port for clients speak TLS: of the one
	// for TLS, and of the other if that serves both. Nil: neither does.
	SecureClients func(l net.Listener, secure bool) net.Listener
}

// ClientConfig is about sessions, connections and requests, and what they may do.
type ClientConfig struct {
	TickTime   time.Duration
	SessionMin time.Duration // 0 is 2 ticks
	SessionMax time.Duration // 0 is 20 ticks

	ConnsPerIPMax  int           // maxClientCnxns: of one host; 0 is no limit
	NetworkBits    int           // conclave.ipv6PrefixLength: addresses of IPv6 that share so many bits are one host
	ConnsMax       int           // maxCnxns; 0 is no limit
	FrameBytesMax  int           // jute.maxbuffer
	ExtraBytesMax  int           // jute.maxbuffer.extrasize: what a record may be longer than a frame; 0 is FrameBytesMax
	HandshakeTime  time.Duration // nio.sessionlessCnxnTimeout: a connection without a session goes after this
	OutboxBytesMax int           // a client that does not read is disconnected beyond this
	OutboxBudget   int64         // for all clients together; beyond it those who lag are disconnected
	InputBudget    int64         // for the long requests of all clients that have begun and not ended
	InFlightMax    int           // globalOutstandingLimit: requests on their way before connections are not read any more

	// WatchBytesMax is how much memory the watches of all clients may take
	// (conclave.watchBytesMax); 0 is no limit.
	WatchBytesMax int64

	// EphemeralBytesMax is how many bytes one session's ephemerals may take together, their
	// paths and 64 each (conclave.ephemeralBytesMax); 0 is no limit.
	EphemeralBytesMax int64

	ExtendedTypes   bool // TTL znodes
	EnforceQuota    bool
	FourLetterWords []string      // enabled beside srvr; "*" is all
	ReapInterval    time.Duration // znode.container.checkIntervalMs
	ReapPerMinute   int           // znode.container.maxPerMinute
	ContainerUnused time.Duration // znode.container.maxNeverUsedIntervalMs; 0 is never
	ReadOnlyMode    bool          // readonlymode.enabled: serve reads while nobody leads
	LocalSessions   bool          // localSessionsEnabled
	UpgradeSessions bool          // localSessionsUpgradingEnabled
	Throttle        ThrottleConfig
}

// StorageConfig is about files.
type StorageConfig struct {
	NoSync        bool  // forceSync=no
	PreallocBytes int64 // preAllocSize
	LogBytesMax   int64 // txnLogSizeLimitInKb; 0 is no limit
	SnapCount     int   // a snapshot after half to all of so many transactions
	SnapBytes     int64 // or after half to all of so many bytes of log; 0 is no limit
	Compression   snap.Compression
	TrustEmpty    bool          // snapshot.trust.empty
	NoAutoCreate  bool          // db.autocreate=false
	NoMkdir       bool          // datadir.autocreate=false
	NoDigest      bool          // digest.enabled=false
	PurgeInterval time.Duration // autopurge.purgeInterval; 0 is never
	PurgeRetain   int           // autopurge.snapRetainCount
	HistoryMax    int           // commitLogCount: transactions kept in memory for learners; 0 is 500
}

// EnsembleConfig is about the servers of an ensemble. Without one the server is
// standalone, and only ID has a meaning.
type EnsembleConfig struct {
	Ensemble *ensemble.Config
	ID       quorum.ID // this server's number, 1 if it is standalone
	// Own is the line of a server that Ensemble does not name, because it is still to be
	// added, or was taken out. Nil: it has none.
	Own              *ensemble.Member
	Observer         bool          // peerType=observer: takes part without a vote
	InitLimit        int           // ticks for each step of joining
	SyncLimit        int           // ticks of silence between servers
	SilenceTime      time.Duration // instead of SyncLimit, if not 0
	ElectionFinalize time.Duration // wait for a better vote when there is a quorum
	ConnectTime      time.Duration // cnxTimeout: for a connection between servers
	ObserverPort     int           // observerMasterPort: followers serve observers there, observers look for them; 0: they do not
	// Oracle reports whether this server may go on without the other of two participants
	// (oraclePath). It is asked four times a tick, by a goroutine of its own. Nil: never.
	Oracle           func() bool
	ListenOnAll      bool         // quorumListenOnAllIPs: the ports for servers are open on all addresses
	QuorumAddr       string       // host:port to listen on for learners instead of the address in Ensemble, for tests
	ElectionAddr     string       // the same for votes
	QuorumListener   net.Listener // instead of QuorumAddr, for tests
	ElectionListener net.Listener
	PeerDial         peernet.DialFunc // nil dials; tests cut connections with it
	// SecurePeers makes the connections of a port for servers speak TLS, as those of
	// PeerDial do then. The hosts are those of the servers of now. Nil: they do not.
	SecurePeers func(l net.Listener, hosts func() []string) net.Listener
	// PeersAreMembers has connections of servers end whose certificate is for no host of the
	// configuration any more, where SecurePeers lets in none of them.
	PeersAreMembers bool
	// PeerProofs is how servers prove to each other who they are. Nil: they do not. Its
	// Admit is the server's own: with HostOf, a name is that of a server if it is for a
	// host of the ensemble; without, any that is proved is.
	PeerProofs *peernet.Proofs
	HostOf     func(proved string) (host string, ok bool)

	LinearizableReads bool // conclave.linearizableReads: every read waits for a sync
	NoClientsOfLeader bool // leaderServes=no
	ReconfigEnabled   bool
	Reconfig          ensemble.Rules
	// SaveEnsemble makes a configuration durable: the one in force, or the one
	// proposed to follow (next). Nil: the files are not touched.
	SaveEnsemble func(c *ensemble.Config, next bool) error
	// Pending is a configuration that was proposed when the server stopped: what
	// SaveEnsemble was given last as a proposal. Nil for none. It is ignored unless
	// it is newer than Ensemble, and than all that the log has.
	Pending *ensemble.Config
}

// Line returns the line by which this server starts, nil if it has none. Ensemble is not nil.
func (c *EnsembleConfig) Line() *ensemble.Member {
	if m := c.Ensemble.Member(c.ID); m != nil {
		return m
	}
	return c.Own
}

// AuditConfig is about the audit log.
type AuditConfig struct {
	Enabled   bool   // audit.enable
	File      string // conclave.auditFile; "" is zookeeper_audit.log in DataDir
	BytesMax  int64  // conclave.auditFileBytesMax: of one file
	FilesKept int    // conclave.auditFilesKept, beside the one that is written
	User      string // who the server is: the name it proves, or whose process it is
}

// Default returns ZooKeeper's defaults.
func Default() Config {
	return Config{
		ClientConfig: ClientConfig{
			TickTime: 3 * time.Second, ConnsPerIPMax: 60, NetworkBits: 128, FrameBytesMax: wire.FrameBytesMax, HandshakeTime: 10 * time.Second,
			OutboxBytesMax: 64 << 20, OutboxBudget: 512 << 20, InputBudget: 512 << 20, InFlightMax: 1000, EphemeralBytesMax: 8 << 20, WatchBytesMax: 2 << 30,
			ReapInterval: time.Minute, ReapPerMinute: 10000, Throttle: defaultThrottles(),
		},
		StorageConfig: StorageConfig{
			PreallocBytes: 64 << 20, SnapCount: 100000, SnapBytes: 4 << 30, PurgeRetain: 3, HistoryMax: 500,
		},
		EnsembleConfig: EnsembleConfig{
			ID: 1, InitLimit: 10, SyncLimit: 5, ConnectTime: 5 * time.Second, Reconfig: ensemble.Rules{ParticipantsMin: 2},
		},
		Audit: AuditConfig{BytesMax: 10 << 20, FilesKept: 10, User: "<NA>"},
		Clock: clock.System(), Wall: time.Now, Logger: slog.Default(),
	}
}

// PeerAddresses are where a server listens for other servers, host:port, by the addresses
// that its line has for the one or the other port: on all addresses of the machine if that
// is asked for or the line has several, some of which may be those of a router.
func (c *EnsembleConfig) PeerAddresses(line []ensemble.Address) []string {
	var all []string
	for _, a := range line {
		address := a.String()
		if c.ListenOnAll || len(line) > 1 {
			address = fmt.Sprintf(":%d", a.Port)
		}
		if !slices.Contains(all, address) {
			all = append(all, address)
		}
	}
	return all
}
