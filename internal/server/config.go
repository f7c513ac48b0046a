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

// Config is everything that a server is started with, in groups that correspond to those of the
// keys in zoo.cfg. Default returns ZooKeeper's defaults; only DataDir must be set.
type Config struct {
	PlaceConfig
	ClientConfig
	StorageConfig
	EnsembleConfig
	Auth  auth.Rules
	Audit AuditConfig
	Trace TraceConfig

	// SASL begins an exchange with a client that asks for one, on the goroutine of its
	// connection. Nil: SASL is not available, and not required.
	SASL         func() sasl.Server
	SASLOptional bool // allowSaslFailedClients: a client that fails may continue without an identity

	Commands    Commands            // answers four-letter words; nil answers none
	Backups     func() BackupReport // the result of this server's backups; nil if it takes none
	RoleChanged func(Role)          // called by the loop, which waits for it; may be nil

	Clock      clock.Clock
	Wall       func() time.Time
	Logger     *slog.Logger
	SessionKey [16]byte // makes the ids of sessions; zero means a random one at each start. For tests

	// Listen opens the ports for servers; nil means that of package net. For tests in a bubble,
	// where no goroutine may wait for a socket: if it is set, each idle connection has a
	// goroutine.
	Listen ports.Listen
}

// PlaceConfig says where the data is and where clients connect.
type PlaceConfig struct {
	FS         vfs.FS
	DataDir    string       // snapshots and epochs, in its version-2
	DataLogDir string       // transaction log; "" is DataDir
	ClientAddr string       // host:port of the client port; "" opens none
	SecureAddr string       // host:port of the client port for TLS; "" opens none
	Listener   net.Listener // instead of ClientAddr, for tests
	// SecureClients makes the connections of a port for clients use TLS: those of the port for
	// TLS, and those of the other port if it serves both. Nil: no connection uses TLS.
	SecureClients func(l net.Listener, secure bool) net.Listener
}

// ClientConfig has the settings for sessions, connections and requests.
type ClientConfig struct {
	TickTime   time.Duration
	SessionMin time.Duration // 0 is 2 ticks
	SessionMax time.Duration // 0 is 20 ticks

	ConnsPerIPMax  int           // maxClientCnxns: from one host; 0 is no limit
	NetworkBits    int           // conclave.ipv6PrefixLength: IPv6 addresses that share this many bits count as one host
	ConnsMax       int           // maxCnxns; 0 is no limit
	FrameBytesMax  int           // jute.maxbuffer
	ExtraBytesMax  int           // jute.maxbuffer.extrasize: how much longer a record may be than a frame; 0 is FrameBytesMax
	HandshakeTime  time.Duration // nio.sessionlessCnxnTimeout: a connection without a session is closed after this
	OutboxBytesMax int           // beyond this a client that does not read is disconnected
	OutboxBudget   int64         // for all clients together; beyond it clients that lag are disconnected
	InputBudget    int64         // for the unfinished long requests of all clients
	InFlightMax    int           // globalOutstandingLimit: requests on their way, beyond which connections are not read

	// WatchBytesMax is the maximum memory of the watches of all clients
	// (conclave.watchBytesMax); 0 is no limit.
	WatchBytesMax int64

	// EphemeralBytesMax is the maximum size of one session's ephemerals, counted as their paths
	// plus 64 bytes each (conclave.ephemeralBytesMax); 0 is no limit.
	EphemeralBytesMax int64

	ExtendedTypes   bool // TTL znodes
	EnforceQuota    bool
	FourLetterWords []string      // enabled in addition to srvr; "*" is all
	ReapInterval    time.Duration // znode.container.checkIntervalMs
	ReapPerMinute   int           // znode.container.maxPerMinute
	ContainerUnused time.Duration // znode.container.maxNeverUsedIntervalMs; 0 is never
	ReadOnlyMode    bool          // readonlymode.enabled: serve reads while nobody leads
	LocalSessions   bool          // localSessionsEnabled
	UpgradeSessions bool          // localSessionsUpgradingEnabled
	Throttle        ThrottleConfig
}

// StorageConfig has the settings for files.
type StorageConfig struct {
	NoSync        bool  // forceSync=no
	PreallocBytes int64 // preAllocSize
	LogBytesMax   int64 // txnLogSizeLimitInKb; 0 is no limit
	SnapCount     int   // a snapshot is taken after between half and all of this many transactions
	SnapBytes     int64 // or after between half and all of this many bytes of log; 0 is no limit
	Compression   snap.Compression
	TrustEmpty    bool          // snapshot.trust.empty
	NoAutoCreate  bool          // db.autocreate=false
	NoMkdir       bool          // datadir.autocreate=false
	NoDigest      bool          // digest.enabled=false
	PurgeInterval time.Duration // autopurge.purgeInterval; 0 is never
	PurgeRetain   int           // autopurge.snapRetainCount
	HistoryMax    int           // commitLogCount: transactions kept in memory for learners; 0 is 500
}

// EnsembleConfig has the settings for the servers of an ensemble. Without an ensemble the
// server is standalone, and only ID matters.
type EnsembleConfig struct {
	Ensemble *ensemble.Config
	ID       quorum.ID // this server's number, 1 if it is standalone
	// Own is the line of this server if Ensemble does not name it, because it is still to be
	// added, or was removed. Nil: it has none.
	Own              *ensemble.Member
	Observer         bool          // peerType=observer: takes part without a vote
	InitLimit        int           // ticks for each step of joining
	SyncLimit        int           // ticks of silence between servers
	SilenceTime      time.Duration // replaces SyncLimit if not 0
	ElectionFinalize time.Duration // wait for a better vote when there is a quorum
	ConnectTime      time.Duration // cnxTimeout: limit for connecting to another server
	ObserverPort     int           // observerMasterPort: followers serve observers there, and observers connect to them; 0: they do not
	// Oracle reports whether this server may go on without the other one of two participants
	// (oraclePath). It is called four times per tick, by a goroutine of its own. Nil: never.
	Oracle           func() bool
	ListenOnAll      bool         // quorumListenOnAllIPs: the ports for servers are open on all addresses
	QuorumAddr       string       // host:port to listen on for learners instead of the address in Ensemble, for tests
	ElectionAddr     string       // the same for votes
	QuorumListener   net.Listener // instead of QuorumAddr, for tests
	ElectionListener net.Listener
	PeerDial         peernet.DialFunc // nil dials normally; tests interrupt connections with it
	// SecurePeers makes the connections of a port for servers use TLS, as those of PeerDial
	// then must, too. hosts returns the hosts of the present servers. Nil: no TLS.
	SecurePeers func(l net.Listener, hosts func() []string) net.Listener
	// PeersAreMembers ends connections of servers whose certificate is no longer for a host of
	// the configuration, if SecurePeers admits only such hosts.
	PeersAreMembers bool
	// PeerProofs defines how servers prove their identity to each other. Nil: they do not. Its
	// Admit is replaced: with HostOf, a name is accepted if it is for a host of the ensemble;
	// without HostOf, any name that is proved is accepted.
	PeerProofs *peernet.Proofs
	HostOf     func(proved string) (host string, ok bool)

	LinearizableReads bool // conclave.linearizableReads: every read waits for a sync
	NoClientsOfLeader bool // leaderServes=no
	ReconfigEnabled   bool
	Reconfig          ensemble.Rules
	// SaveEnsemble makes a configuration durable: the one in force, or with next the one that
	// is proposed to follow. Nil: the files are not written.
	SaveEnsemble func(c *ensemble.Config, next bool) error
	// Pending is a configuration that was proposed when the server stopped: the last one that
	// SaveEnsemble was given as a proposal. Nil for none. It is ignored unless it is newer than
	// Ensemble, and newer than everything in the log.
	Pending *ensemble.Config
}

// Line returns the line with which this server starts; nil if it has none. Ensemble must not be
// nil.
func (c *EnsembleConfig) Line() *ensemble.Member {
	if m := c.Ensemble.Member(c.ID); m != nil {
		return m
	}
	return c.Own
}

// AuditConfig has the settings of the audit log.
type AuditConfig struct {
	Enabled   bool   // audit.enable
	File      string // conclave.auditFile; "" is zookeeper_audit.log in DataDir
	BytesMax  int64  // conclave.auditFileBytesMax: of one file
	FilesKept int    // conclave.auditFilesKept, in addition to the one being written
	User      string // the name of the server: the one it proves, or the user of its process
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

// PeerAddresses returns where a server listens for other servers, as host:port, given the
// addresses of one of its ports in its line. It listens on all addresses of the machine if that
// is configured, or if the line has several addresses, because some of them may be those of a
// router.
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
