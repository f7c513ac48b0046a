package zoocfg

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/snap"
)

// meaning is how this server treats a setting of Apache's. All three ways are reported in
// some form.
type meaning int

const (
	works     meaning = iota
	noMeaning         // there is nothing that it could change: a note at the start says so
	notServed         // this version lacks the feature: a value that asks for it is refused
)

// setting describes one key: a row of the table, without its name.
type setting struct {
	read    func(string) error // checks the value, and stores it if it has an effect
	initial string             // the default, as docs/configuration.md writes it
	about   string             // what it does
	means   meaning            // how it is treated
	without string             // why the key has no effect; "" if it has one
	served  string             // notServed: values ("|" between) that do not ask for the feature; "" if every value does
	refuse  bool               // any other value is an error, not a remark

	inEnsemble bool // the treatment is for an ensemble; a standalone server does not use the key
	javaOnly   bool // Apache reads it only as a Java property, and ignores it in a file
}

// used returns a setting that has an effect.
func used(read func(string) error, initial, about string) setting {
	return setting{read: read, initial: initial, about: about}
}

// idle returns a setting without a meaning here, and the reason.
func idle(read func(string) error, why string) setting {
	return setting{read: read, means: noMeaning, without: why}
}

// later returns a setting that, with a value other than served, asks for what this version
// does not have yet. The server starts without it and says so.
func later(read func(string) error, served, what string) setting {
	return setting{read: read, means: notServed, without: what, served: served}
}

// refused returns a setting that is an error with a value other than served.
func refused(read func(string) error, served, what string) setting {
	return setting{read: read, means: notServed, without: what, served: served, refuse: true}
}

// inEnsemble returns s for ensembles only; a standalone server does not use it.
func inEnsemble(s setting) setting {
	s.inEnsemble = true
	return s
}

// javaOnly returns s for a key that Apache reads only as a Java property.
func javaOnly(s setting) setting {
	s.javaOnly = true
	return s
}

// asks reports whether a value asks for something that is not served.
func (s *setting) asks(value string) bool {
	if s.means != notServed {
		return false
	}
	for known := range strings.SplitSeq(s.served, "|") {
		if known == "*" || strings.EqualFold(known, value) {
			return false
		}
	}
	return true
}

// Reasons why a key has no effect, as docs/configuration.md explains them.
const (
	whyLinks     = "links between servers are read and written without waiting for each other"
	whySync      = "a learner is synchronized from memory, from the log or by a snapshot, whichever is enough"
	whyMaster    = "an observer is given the history and what follows it in one step, so there is no cache of transactions to bound: commitLogCount is for both"
	whyAddresses = "all addresses of a server are tried"
	whyLoop      = "requests are batched by what has arrived, not by time and number"
	whyThreads   = "there are no pools of threads to size"
	whyCache     = "replies are read from the tree, there is no cache of them"
	whyTLS       = "Go's own TLS is used"
	whyStores    = "Java's own stores are not read: name the files with ssl.keyStore.location and ssl.trustStore.location, and those of ssl.quorum."
	whyProviders = "there are no security providers of Java: leave it out. GODEBUG=fips140=on in the environment holds TLS to algorithms of FIPS 140"
	whyTickets   = "a ticket is asked for again before it ends"
	whyKerberos  = "Kerberos is built in"
	whyNoRestore = "the admin port has no restore: docs/operations.md has how to replace a server's data"
	whyMetrics   = "figures are served to Prometheus and by mntr alone"
	whyScrape    = "figures are read when they are scraped, there is no queue of them"
	whyJava      = "there is no Java process"
	whyFormat    = "files are written as ZooKeeper 3.9 writes them by default"
	whyWatches   = "there is one kind of watch table"
	whyMoments   = "the election resends when it must, see docs/protocols/fle.md"
	whyPaths     = "this version keeps no statistics by path"
	whyClients   = "it is a setting of clients"
	whyScripts   = "it is for Apache's scripts: name the file with --config"
	whyLog       = "the log is written to the standard error"
	whyTests     = "it is for Apache's own tests"
	whyMistaken  = "ZooKeeper's documentation names it so, but ZooKeeper does not read that name"
	whyKeepAlive = "TCP keeps all connections alive"
	whyNoDelay   = "what is written is sent at once"
)

// part is one part of the table, as in docs/configuration.md.
type part struct {
	name string
	rows map[string]setting
}

// parts returns the table of all keys that do not belong to a family, for one reader.
func (r *reader) parts() []part {
	return []part{
		{"places", r.placeKeys()}, {"clients", r.clientKeys()}, {"limits", r.limitKeys()}, {"auth", r.authKeys()},
		{"storage", r.storageKeys()}, {"ensemble", r.ensembleKeys()}, {"tls", r.tlsKeys()}, {"groups", r.groupKeys()}, {"sasl", r.saslKeys()},
		{"admin", r.adminKeys()}, {"backup", r.backupKeys()}, {"tuning", r.tuningKeys()}, {"others", r.otherKeys()},
	}
}

// keys returns the rows of all parts.
func (r *reader) keys() map[string]setting {
	table := map[string]setting{}
	for _, part := range r.parts() {
		maps.Copy(table, part.rows)
	}
	return table
}

// placeKeys set where data is stored and where clients connect.
func (r *reader) placeKeys() map[string]setting {
	c := &r.out.Server.PlaceConfig
	return map[string]setting{
		"dataDir": used(text(&c.DataDir), "must be set", "directory of the snapshots, which are in its `version-2`"),
		"dataLogDir": used(text(&c.DataLogDir), "`dataDir`", "directory of the transaction log, which is in its `version-2`; a separate disk is faster. A start without "+
			"the log that belongs to the snapshots is [refused](operations.md#where-the-log-is)"),
		"clientPort":              used(port(&r.clientPort), "must be set", "port for clients; not needed if there is a `secureClientPort`"),
		"clientPortAddress":       used(text(&r.clientHost), "all", "address on which that port is opened"),
		"clientPortListenBacklog": idle(number[int](nil, -1, math.MaxInt32), "the system's own backlog is used"),
		"serverCnxnFactory":       idle(text(nil), "one kind of client port serves TLS and plain connections"),
	}
}

// clientKeys concern sessions, connections and requests.
func (r *reader) clientKeys() map[string]setting {
	c := &r.out.Server.ClientConfig
	return map[string]setting{
		"tickTime":                               used(millis(&c.TickTime, 1), "3000 ms", "unit of the session timeouts and of expiry"),
		"minSessionTimeout":                      used(millis(&c.SessionMin, -1), "2 ticks", "the shortest session timeout that a client may ask for, ms; -1 is the default"),
		"maxSessionTimeout":                      used(millis(&c.SessionMax, -1), "20 ticks", "the longest session timeout that a client may ask for, ms; -1 is the default"),
		"extendedTypesEnabled":                   used(flag(&c.ExtendedTypes), "false", "TTL znodes. Without it, a directory that has some is refused"),
		"emulate353TTLNodes":                     refused(flag(nil), "false", "TTL znodes of ZooKeeper 3.5.3 are not read"),
		"4lw.commands.whitelist":                 used(r.fourLetterWords, "`srvr`", "four-letter words that are answered, `*` for all; with `readonlymode.enabled=true`, `isro` is answered in any case"),
		"znode.container.checkIntervalMs":        javaOnly(used(millis(&c.ReapInterval, 1), "60000", "how often empty containers and expired TTL znodes are looked for")),
		"znode.container.maxPerMinute":           javaOnly(used(number(&c.ReapPerMinute, 1, math.MaxInt32), "10000", "how many containers and TTL znodes are deleted per minute")),
		"znode.container.maxNeverUsedIntervalMs": javaOnly(used(millis(&c.ContainerUnused, 0), "0", "a container that never had a child is deleted after this time; 0 is never")),
		"readonlymode.enabled":                   javaOnly(inEnsemble(used(flag(&c.ReadOnlyMode), "false", "a server that has not found a leader for two seconds serves reads to clients that allow it"))),
		"localSessionsEnabled":                   inEnsemble(used(flag(&c.LocalSessions), "false", "sessions are known to only one server, cost no transaction, end with that server's process and own no ephemerals")),
		"localSessionsUpgradingEnabled":          inEnsemble(used(flag(&c.UpgradeSessions), "false", "a local session becomes one that all servers know when it creates its first ephemeral")),
		"closeSessionTxn.enabled":                refused(flag(nil), "true", whyFormat),
		"enableEagerACLCheck":                    idle(flag(nil), "a write is checked once, by the leader"),
		"watchManagerName":                       idle(text(nil), whyWatches),
		"bitHashCacheSize":                       idle(number[int](nil, 0, math.MaxInt32), whyWatches),
		"watcherCleanThreshold":                  idle(number[int](nil, math.MinInt32, math.MaxInt32), whyWatches),
		"watcherCleanIntervalInSeconds":          idle(number[int](nil, math.MinInt32, math.MaxInt32), whyWatches),
		"watcherCleanThreadsNum":                 idle(number[int](nil, math.MinInt32, math.MaxInt32), whyWatches),
		"maxInProcessingDeadWatchers":            idle(number[int](nil, math.MinInt32, math.MaxInt32), whyWatches),
		"maxResponseCacheSize":                   idle(number[int](nil, math.MinInt32, math.MaxInt32), whyCache),
		"maxGetChildrenResponseCacheSize":        idle(number[int](nil, math.MinInt32, math.MaxInt32), whyCache),
		"clientTcpKeepAlive":                     idle(flag(nil), whyKeepAlive),
		"intBufferStartingSizeBytes":             idle(number[int](nil, math.MinInt32, math.MaxInt32), "buffers grow with what is in them"),
	}
}

// limitKeys limit what clients may do.
func (r *reader) limitKeys() map[string]setting {
	c := &r.out.Server.ClientConfig
	rows := map[string]setting{
		"maxClientCnxns": used(number(&c.ConnsPerIPMax, math.MinInt32, math.MaxInt32), "60", "connections from one address; 0 is no limit"),
		"conclave.ipv6PrefixLength": used(number(&c.NetworkBits, 1, 128), "128", "IPv6 addresses with this many leading bits in common count as one for `maxClientCnxns`, for "+
			"`conclave.address…PerSecond`, and where the client with the most is disconnected, because one host may use "+
			"all of them; 128 counts every address by itself, as Apache ZooKeeper does. IPv4 addresses count as they are, "+
			"even inside IPv6"),
		"maxCnxns":                   used(number(&c.ConnsMax, math.MinInt32, math.MaxInt32), "0", "connections in total; 0 is as many as there are file descriptors, of which 512, but no more than half, are kept for files and servers. So is a number above that"),
		"nio.sessionlessCnxnTimeout": used(millis(&c.HandshakeTime, 1), "10000 ms", "a connection without a session is closed after this time"),
		"jute.maxbuffer":             javaOnly(used(number(&c.FrameBytesMax, 1, 1<<30), "1048575 bytes", "longest request; a longer one closes its connection. Together with `jute.maxbuffer.extrasize`, also the longest record, path or data that can be read from disk and from a leader, but never less than 2 MiB")),
		"jute.maxbuffer.extrasize":   used(number(&c.ExtraBytesMax, 0, 1<<30), "`jute.maxbuffer`", "by how many bytes a record may be longer than a request; in total, a record has at most 1 GiB"),
		"globalOutstandingLimit":     used(number(&c.InFlightMax, 1, 1<<20), "1000", "requests in progress; beyond it, each connection may have no more than its share, but at least one; beyond 16 MiB of memory, one"),
		"enforceQuota":               used(flag(&c.EnforceQuota), "false", "refuse writes beyond a hard quota instead of logging them"),
		"conclave.watchBytesMax":     used(number(&c.WatchBytesMax, 0, 1<<50), "2147483648", "about how many bytes of memory the watches of all clients may take: 56 bytes and the path for each, and for a recursive one 190 bytes and the path in addition; 0 is no limit. Beyond it, the client with the most, of the address with the most, is disconnected, and its session stays. Not in Apache ZooKeeper"),
		"conclave.ephemeralBytesMax": used(number(&c.EphemeralBytesMax, 0, 1<<40), "8388608", "how many bytes one session's ephemerals may take together, counting their paths and 64 bytes each; 0 is no limit. A create beyond it is answered -125, because the end of a session is a single step on every server. Not in Apache ZooKeeper, whose servers cannot read a transaction that names more than `jute.maxbuffer` of them"),
	}
	maps.Copy(rows, r.throttleKeys())
	return rows
}

// throttleKeys refuse or delay requests and connections under overload. They are off by
// default.
func (r *reader) throttleKeys() map[string]setting {
	t := &r.out.Server.Throttle
	c := &t.Conns
	return map[string]setting{
		"connection_throttle_tokens": used(number(&c.Tokens, 0, 1<<30), "0", "how many clients may connect at a time: each takes a token, and is disconnected if there is none; 0 is no "+
			"limit"),
		"connection_throttle_fill_time":  used(millis(&c.FillTime, 1), "1 ms", "how often tokens come back"),
		"connection_throttle_fill_count": used(number(&c.FillCount, 1, 1<<30), "1", "how many tokens come back each time"),
		"connection_throttle_freeze_time": used(millis(&c.FreezeTime, -1), "-1", "while there are too few tokens, a part of the clients is refused at random, so that those that try again "+
			"spread out; the chance of a refusal changes after this many ms at the earliest. -1: none is refused"),
		"connection_throttle_drop_increase":  used(fraction(&c.DropIncrease), "0.02", "by how much the chance of a refusal grows when there is no token"),
		"connection_throttle_drop_decrease":  used(fraction(&c.DropDecrease), "0.002", "by how much the chance of a refusal falls when few tokens are taken"),
		"connection_throttle_decrease_ratio": used(fraction(&c.DecreaseRatio), "0", "which part of all tokens counts as few"),
		"connection_throttle_weight_enabled": used(flag(&c.Weights), "false", "a client takes as many tokens as the weight of its kind of session; the other numbers of tokens then count "+
			"new sessions"),
		"connection_throttle_global_session_weight": used(number(&c.GlobalTakes, 1, 1<<10), "3", "how many tokens a new session takes"),
		"connection_throttle_renew_session_weight":  used(number(&c.RenewTakes, 1, 1<<10), "2", "how many tokens a resumed session takes"),
		"connection_throttle_local_session_weight":  used(number(&c.LocalTakes, 1, 1<<10), "1", "how many tokens a new local session takes"),

		"netty.server.outstandingHandshake.limit": used(number(&t.HandshakesMax, -1, math.MaxInt32), "-1", "TLS handshakes at a time; a connection beyond it is closed, or the oldest one of the address that has the "+
			"most. 0 or less is no limit"),
		"netty.server.earlyDropSecureConnectionHandshakes": idle(flag(nil), "connections are counted before their handshakes"),

		"request_throttle_max_requests": used(number(&t.RequestsMax, 0, 1<<30), "0", "how many writes, and reads that wait for them, may be in progress at a time; others wait for their turn, and "+
			"their connections are not read. Reads that are answered at once do not count. 0 is no limit"),
		"request_throttle_stall_time":    idle(number[int64](nil, 0, math.MaxInt32), "a request that waits is woken by the one that ends"),
		"throttled_op_wait_time":         used(millis(&t.WaitMax, 0), "0", "a request that has waited for its turn longer than this, in ms, is answered with -127 and not carried out; 0 is never"),
		"request_throttle_drop_stale":    used(notFlag(&t.KeepStale), "true", "a request that is stale when its turn comes is dropped, with its connection"),
		"request_stale_connection_check": used(notFlag(&t.KeepGone), "true", "a request is stale if its client has gone"),
		"request_stale_latency_check":    used(flag(&t.SessionStale), "false", "a request is stale if it has waited longer than its session lasts"),
		"largeRequestThreshold":          used(number(&t.LargeBytes, math.MinInt32, math.MaxInt32), "-1", "a request with more bytes is a large one; 0 or less: none is"),
		"largeRequestMaxBytes": used(number(&t.LargeBytesMax, 1, 1<<40), "104857600 bytes", "how many bytes all large requests may have together; one beyond it is answered with -127 and not carried "+
			"out; a list of watches ends its connection"),

		"conclave.sessionRequestsPerSecond": used(number(&t.Rates.Session.Requests, 0, 1<<40), "0", "how many requests per second a client may make on one connection to this server; 0 is no limit. A request "+
			"beyond it waits, as do those after it; one that would wait longer than a second, or a quarter of the session "+
			"timeout, is answered with -127 and not carried out. Pings, closeSession, authentication and lists of watches "+
			"do not count. Not in Apache ZooKeeper"),
		"conclave.sessionBytesPerSecond":     used(number(&t.Rates.Session.Bytes, 0, 1<<40), "0", "how many bytes of requests per second a client may send on one connection; 0 is no limit. Otherwise like `conclave.sessionRequestsPerSecond`. Not in Apache ZooKeeper"),
		"conclave.addressRequestsPerSecond":  used(number(&t.Rates.Address.Requests, 0, 1<<40), "0", "how many requests per second all connections of one IP address (or of one IPv6 network) may make together; 0 is no limit. Otherwise like `conclave.sessionRequestsPerSecond`. Not in Apache ZooKeeper"),
		"conclave.addressBytesPerSecond":     used(number(&t.Rates.Address.Bytes, 0, 1<<40), "0", "how many bytes of requests per second all connections of one IP address, or of one identity, may send together; 0 is no limit. Otherwise like `conclave.sessionRequestsPerSecond`. Not in Apache ZooKeeper"),
		"conclave.identityRequestsPerSecond": used(number(&t.Rates.Identity.Requests, 0, 1<<40), "0", "how many requests per second all connections that have proved one identity (digest, sasl, x509) may make together; 0 is no limit. Otherwise like `conclave.sessionRequestsPerSecond`. Not in Apache ZooKeeper"),
		"conclave.identityBytesPerSecond":    used(number(&t.Rates.Identity.Bytes, 0, 1<<40), "0", "how many bytes of requests per second all connections of one IP address, or of one identity, may send together; 0 is no limit. Otherwise like `conclave.sessionRequestsPerSecond`. Not in Apache ZooKeeper"),

		"conclave.identityConnectionsMax": used(number(&t.IdentityConnsMax, 0, math.MaxInt32), "0", "how many connections to this server may have proved one identity (digest, sasl, x509); 0 is no limit. A "+
			"connection beyond it is closed when it proves the identity, without an answer, and its session stays. The "+
			"super user has no such limit. Not in Apache ZooKeeper"),
		"conclave.sessionWatchesMax": used(number(&t.Watches.Session, 0, math.MaxInt32), "0", "how many watches a session may have, as `mntr` counts them: a persistent one that is not recursive counts "+
			"twice; 0 is no limit. A request that would set a watch beyond it is answered with -127 and not carried out; "+
			"a list of watches beyond it, with which a client sets them again, ends its connection. Not in Apache "+
			"ZooKeeper"),
		"conclave.identityWatchesMax": used(number(&t.Watches.Identity, 0, math.MaxInt32), "0", "how many watches all connections to this server that have proved one identity may have together; 0 is no limit. Otherwise like `conclave.sessionWatchesMax`. Not in Apache ZooKeeper"),
		"conclave.watchesMax":         used(number(&t.Watches.All, 0, math.MaxInt32), "0", "how many watches all clients of this server may have together; 0 is no limit. Otherwise like `conclave.sessionWatchesMax`. Not in Apache ZooKeeper"),
	}
}

// storageKeys concern files.
func (r *reader) storageKeys() map[string]setting {
	c := &r.out.Server.StorageConfig
	const kib = 1 << 10
	return map[string]setting{
		"preAllocSize": used(scaled(&c.PreallocBytes, math.MinInt32, math.MaxInt32, kib), "65536 KiB", "by how much the log's file grows at a time, up to 262144; a disk with less space left counts as full. 0 or less: the file grows as records need it, and a full disk is only noticed when a record is written"),
		"snapCount": used(number(&c.SnapCount, 2, math.MaxInt32), "100000", "a snapshot is taken after half to all of this many transactions, chosen at random, once the log has also "+
			"grown by half of the last snapshot; a restart does not reset the count"),
		"snapSizeLimitInKb":                  used(scaled(&c.SnapBytes, math.MinInt32, 1<<40, kib), "4194304", "a snapshot is also taken after half to all of this much log; 0 or less is no limit"),
		"txnLogSizeLimitInKb":                used(scaled(&c.LogBytesMax, math.MinInt32, 1<<40, kib), "-1", "a new log file begins after this much; 0 or less is no limit"),
		"forceSync":                          used(choice(&c.NoSync, "no", "yes"), "yes", "`no`: replies do not wait for the disk, and a crash of the machine then loses acknowledged writes"),
		"fsync.warningthresholdms":           idle(number[int64](nil, 0, math.MaxInt32), "a slow sync is seen in mntr"),
		"autopurge.snapRetainCount":          used(number(&c.PurgeRetain, 0, math.MaxInt32), "3", "how many valid snapshots a purge leaves, at least 3"),
		"autopurge.purgeInterval":            used(purgeInterval(&c.PurgeInterval), "0", "hours (or a number with ms, s, m, h or d) between purges; 0 is never"),
		"digest.enabled":                     used(notFlag(&c.NoDigest), "true", "keep checksums of the tree in the log and in snapshots"),
		"snapshot.trust.empty":               used(flag(&c.TrustEmpty), "false", "start on a log without any snapshot"),
		"snapshot.compression.method":        used(r.compression, "none", "`gz` or `snappy`"),
		"db.autocreate":                      used(notFlag(&c.NoAutoCreate), "true", "start an empty tree in an empty directory"),
		"datadir.autocreate":                 used(notFlag(&c.NoMkdir), "true", "create the directory"),
		"commitLogCount":                     used(number(&c.HistoryMax, 0, 1<<20), "500", "transactions kept in memory, to synchronize servers that were away for a short time; 0 counts as 500"),
		"snapshotSizeFactor":                 idle(decimal, whySync),
		"flushDelay":                         idle(number[int64](nil, math.MinInt32, math.MaxInt32), whyLoop),
		"maxWriteQueuePollTime":              idle(number[int64](nil, math.MinInt32, math.MaxInt32), whyLoop),
		"maxBatchSize":                       idle(number[int64](nil, math.MinInt32, math.MaxInt32), whyLoop),
		"serializeLastProcessedZxid.enabled": refused(flag(nil), "true", whyFormat),
	}
}

// authKeys concern authentication and permissions.
func (r *reader) authKeys() map[string]setting {
	c := &r.out.Server.Auth
	return map[string]setting{
		"skipACL": used(choice(&c.SkipACL, "yes", "no"), "no", "`yes`: everybody may do everything"),
		"DigestAuthenticationProvider.superDigest": used(r.superDigest, "none", "`user:hash` of the super user. Use a long, generated password: failed guesses are logged and counted in `auth_failed_count`, but there is no limit to them"),
		"DigestAuthenticationProvider.enabled":     used(notFlag(&c.NoDigest), "true", "the scheme digest"),
		"DigestAuthenticationProvider.digestAlg": used(digestHash(&c.Hash), "SHA1", "the hash for digests, by its Java name: MD5, SHA-256, SHA-512, SHA3-256 and the like. All servers of an "+
			"ensemble need the same; ACLs that are in the tree keep the hashes that they have"),
		"X509AuthenticationProvider.superUser":      used(text(&c.X509Super), "none", "the name of a certificate whose client may do everything"),
		"enforce.auth.enabled":                      used(flag(&r.enforce), "false", "a client must authenticate before it asks for anything else; otherwise its session's connection ends with code -124"),
		"enforce.auth.schemes":                      used(text(&r.schemes), "none", "the schemes of which a client must prove one: `digest`, `x509`, `ip`, `sasl`, separated by commas"),
		"kinit":                                     idle(text(nil), whyKerberos),
		"sun.security.jgss.native":                  javaOnly(idle(flag(nil), whyKerberos)),
		"ensembleAuthName":                          used(r.ensembleNames, "any", "names of this ensemble, separated by commas, if `EnsembleAuthenticationProvider` is named: a client that asks for another ensemble (scheme `ensemble`) is disconnected"),
		"IPAuthenticationProvider.usexforwardedfor": idle(flag(nil), "the admin port looks only at the address of the connection"),
	}
}

// ensembleKeys concern ensembles. The server, group and weight lines are read by line.
func (r *reader) ensembleKeys() map[string]setting {
	c := &r.out.Server.EnsembleConfig
	count := number[int](nil, math.MinInt32, math.MaxInt32)
	return map[string]setting{
		"initLimit":                                  used(number(&c.InitLimit, 0, math.MaxInt32), "must be set", "ticks that a server has to find its leader and to take over the leader's state"),
		"syncLimit":                                  used(number(&c.SyncLimit, 0, math.MaxInt32), "must be set", "ticks after which a silent leader or follower is left"),
		"version":                                    idle(text(nil), "the end of the dynamic file's name is the version, or a line in that file"),
		"connectToLearnerMasterLimit":                idle(count, "syncLimit, or conclave.silenceMs, bounds the connecting too"),
		"dynamicConfigFile":                          used(r.dynamicFile, "none", "file with the `server.N` lines; their version is the hexadecimal number at the end of its name, or without one, that of a line `version=` in it (which Apache ZooKeeper refuses)"),
		"standaloneEnabled":                          used(flag(&r.standalone), "true", "`false`: a single participant is an ensemble too, and a reconfig may shrink the ensemble to one"),
		"reconfigEnabled":                            used(flag(&c.ReconfigEnabled), "false", "allow reconfigs, and keep them in files; one that was already made counts in any case; on a standalone server there is nothing to change"),
		"peerType":                                   used(r.peerType, "participant", "the role in the server's line counts; if this one differs, the log remarks on it"),
		"electionAlg":                                used(fastElection, "3", "no other value is accepted"),
		"electionPortBindRetry":                      idle(count, "a port that cannot be opened ends the start, and what supervises the server tries again"),
		"cnxTimeout":                                 used(millis(&c.ConnectTime, 1), "5000 ms", "a connection to another server's election port that is not open after this time is given up"),
		"observerMasterPort":                         inEnsemble(used(port(&c.ObserverPort), "0", "a follower serves observers at this port of its quorum addresses, and an observer connects to the port of one participant after the other instead of the leader; 0: observers connect to the leader. Must be the same on all servers")),
		"observerMaster.sizeLimit":                   idle(count, whyMaster),
		"observer.reconnectDelayMs":                  idle(count, "an observer looks for the leader at once"),
		"observer.election.DelayMs":                  idle(count, "an observer looks for the leader at once"),
		"syncEnabled":                                idle(flag(nil), "an observer keeps its log like any other server"),
		"observer.syncEnabled":                       idle(flag(nil), "an observer keeps its log like any other server"),
		"quorumListenOnAllIPs":                       used(flag(&r.listenOnAll), "false", "open the two ports for servers on all addresses, not just on the one in the server's own line"),
		"leaderServes":                               inEnsemble(used(choice(&c.NoClientsOfLeader, "no", "yes"), "yes", "`no`: a leader serves no clients")),
		"learner.asyncSending":                       idle(flag(nil), whyLinks),
		"learner.closeSocketAsync":                   idle(flag(nil), whyLinks),
		"leader.closeSocketAsync":                    idle(flag(nil), whyLinks),
		"follower.skipLearnerRequestToNextProcessor": idle(flag(nil), whyLinks),
		"leader.nodelay":                             javaOnly(idle(flag(nil), whyNoDelay)),
		"follower.nodelay":                           javaOnly(idle(flag(nil), whyNoDelay)),
		"tcpKeepAlive":                               idle(flag(nil), whyKeepAlive),
		"quorumCnxnTimeoutMs":                        idle(count, whyKeepAlive),
		"leader.maxConcurrentSnapSyncs":              idle(count, whySync),
		"leader.maxConcurrentDiffSyncs":              idle(count, whySync),
		"forceSnapshotSync":                          idle(flag(nil), whySync),
		"leader.maxTimeToWaitForEpoch":               idle(count, "initLimit bounds it"),
		"leader.ackLoggingFrequency":                 idle(count, "acknowledgements are not logged one by one"),
		"leaderConnectDelayDuringRetryMs":            idle(count, "a leader that does not answer is asked again when the next vote says so"),
		"fastleader.minNotificationInterval":         idle(count, whyMoments),
		"fastleader.maxNotificationInterval":         idle(count, whyMoments),
		"forward_learner_requests_to_commit_processor_disabled": idle(flag(nil), whyThreads),
		"multiAddress.enabled":                    used(flag(&c.Reconfig.MultiAddress), "false", "servers may have several addresses; such a server opens its ports on all addresses of the machine"),
		"multiAddress.reachabilityCheckEnabled":   idle(flag(nil), whyAddresses),
		"multiAddress.reachabilityCheckTimeoutMs": idle(count, whyAddresses),
		"oraclePath": inEnsemble(used(text(&r.oracle), "none", "a file on each of two servers: the server whose file begins with 1 goes on without the other. Whatever writes these files has to promise much: docs/operations.md, Two servers and an oracle")),
		"conclave.reconfigSecurePorts": used(flag(&c.Reconfig.SecurePorts), "false", "a reconfig may give servers client ports that use TLS (`;[clientPort];[host:]secureClientPort`), as in "+
			"ZooKeeper 3.10. Servers of ZooKeeper 3.9 cannot read such a line, so this is only for ensembles that have "+
			"none. With `ssl.keyStore.location`, a server opens its first such port at once, otherwise after a restart. "+
			"Not in Apache ZooKeeper 3.9"),
		myIDKey: used(r.myID, "none", "the number of this server if `dataDir` has no file `myid`; or the name of a pod of a StatefulSet, such as "+
			"`zk-2` for server 3, because pods are counted from 0. A file with another number is refused. Not in Apache "+
			"ZooKeeper"),
		ownLineKey: used(text(&r.ownLine), "none", "the line of this server (the part after `server.N=`) if the `server.N` lines have none for it, because it is "+
			"about to be added or was removed. Needs `reconfigEnabled=true`; the server writes it here itself. Not in "+
			"Apache ZooKeeper, which does not start in this case"),
		"conclave.linearizableReads":  used(flag(&c.LinearizableReads), "false", "a read sees every write that was acknowledged before it, on any server; this costs a round trip to the leader. Not in Apache ZooKeeper"),
		"conclave.electionFinalizeMs": used(millis(&c.ElectionFinalize, 0), "0 ms", "how long a server with a quorum of votes waits for a better one. Apache ZooKeeper waits 200"),
		"conclave.silenceMs":          used(millis(&c.SilenceTime, 0), "0 ms", "a silent leader or follower is left after this time, however long a tick is; 0 is `syncLimit` ticks. Not in Apache ZooKeeper"),
	}
}

// peerType reads the role of this server in the static file.
func (r *reader) peerType(v string) error {
	return choice(&r.observer, "observer", "participant")(strings.ToLower(v))
}

// fastElection refuses the election algorithms that Apache has removed, too.
func fastElection(v string) error {
	if n, err := decode(v); err != nil || n != 3 {
		return fmt.Errorf("%q is not 3, the fast election: there is no other", v)
	}
	return nil
}

// tuningKeys tune the Java process and its monitoring.
func (r *reader) tuningKeys() map[string]setting {
	count := number[int64](nil, math.MinInt32, math.MaxInt64)
	rows := map[string]setting{
		"pathStats.enabled":                 idle(flag(nil), whyPaths),
		"pathStats.sampleRate":              idle(decimal, whyPaths),
		"messageTracker.Enabled":            idle(flag(nil), "no messages of other servers are kept to be logged"),
		"messageTracker.BufferSize":         idle(count, "no messages of other servers are kept to be logged"),
		"jvm.pause.monitor":                 idle(flag(nil), whyJava),
		"netty.advancedFlowControl.enabled": idle(flag(nil), whyThreads),
	}
	idles(rows, count, whyPaths, "pathStats.delay", "pathStats.initialDelay", "pathStats.maxDepth", "pathStats.slotCapacity",
		"pathStats.slotDuration", "pathStats.topPathMax")
	idles(rows, count, whyJava, "jvm.pause.info-threshold.ms", "jvm.pause.warn-threshold.ms", "jvm.pause.sleep.time.ms")
	idles(rows, count, whyThreads, "commitProcessor.numWorkerThreads", "commitProcessor.shutdownTimeout",
		"commitProcessor.maxReadBatchSize", "commitProcessor.maxCommitBatchSize", "nio.numSelectorThreads",
		"nio.numWorkerThreads", "nio.directBufferBytes", "nio.shutdownTimeout", "request_throttler.shutdownTimeout")
	maps.Copy(rows, r.metricsKeys())
	maps.Copy(rows, r.auditKeys())
	maps.Copy(rows, r.traceKeys())
	maps.Copy(rows, r.httpKeys())
	return rows
}

// otherKeys are keys of clients, of Java and of Apache's tests that a server may be given,
// and names that occur only in Apache's documentation.
func (r *reader) otherKeys() map[string]setting {
	anything := text(nil)
	rows := map[string]setting{
		"com.sun.net.ssl.checkRevocation":              javaOnly(refused(flag(nil), "false", "write ssl.crl=true, or ssl.quorum.crl=true")),
		"com.sun.security.enableCRLDP":                 javaOnly(idle(flag(nil), "ssl.crl reads the list that the certificate names")),
		"com.sun.security.onlyCheckRevocationOfEECert": javaOnly(refused(flag(nil), "false", "every certificate that a server or client shows is looked for")),
		"jdk.tls.rejectClientInitiatedRenegotiation":   javaOnly(idle(flag(nil), "no client may renegotiate")),
		"jdk.tls.ephemeralDHKeySize":                   javaOnly(idle(anything, "keys are agreed on with elliptic curves alone")),
		"javax.net.ssl.trustStore":                     javaOnly(refused(anything, "", whyStores)),
		"java.security.properties":                     javaOnly(refused(anything, "", whyProviders)),
		"java.rmi.server.hostname":                     javaOnly(idle(anything, whyJava)),
		"hostProvider.dnsSrvRefreshIntervalSeconds":    idle(anything, whyClients),
	}
	idles(rows, anything, whyClients, "client.secure", "clientCnxnSocket", "disableAutoWatchReset", "request.timeout", "sasl.client",
		"sasl.client.allowReverseDnsLookup", "sasl.client.canonicalize.hostname", "sasl.client.username", "sasl.clientconfig",
		"server.principal", "server.realm", "shuffleDnsResponse")
	idles(rows, anything, whyTests, "test.allowDiscontinuousProposals", "testingonly.initialZxid", "controllerPort")
	idles(rows, anything, whyJava, "jmx.log4j.disable", "jmx.log4j.mbean")
	idles(rows, anything, "the server is a process of its own", "configuration")
	idles(rows, anything, whyLog, "log.dir", "log.file")
	idles(rows, anything, whyMistaken, "advancedFlowControlEnabled", "commitProcessor.numWorkerThread", "maxConcurrentDiffSyncs",
		"maxConcurrentSnapSyncs", "maxTimeToWaitForEpoch", "nio.workerShutdownTimeout")
	for name, meant := range mistaken {
		rows[name] = refused(anything, "", whyMistaken+": write "+meant)
	}
	return rows
}

// mistaken are names of limits that occur only in Apache's documentation.
var mistaken = map[string]string{
	"connectionDecreaseRatio": "connection_throttle_decrease_ratio", "connectionDropDecrease": "connection_throttle_drop_decrease",
	"connectionDropIncrease": "connection_throttle_drop_increase", "connectionFreezeTime": "connection_throttle_freeze_time",
	"connectionMaxTokens": "connection_throttle_tokens", "connectionTokenFillCount": "connection_throttle_fill_count",
	"connectionTokenFillTime": "connection_throttle_fill_time", "requestStaleConnectionCheck": "request_stale_connection_check",
	"requestStaleLatencyCheck": "request_stale_latency_check", "requestThrottleDropStale": "request_throttle_drop_stale",
	"requestThrottleLimit": "request_throttle_max_requests", "requestThrottleStallTime": "request_throttle_stall_time",
}

// idles adds rows that have no meaning, all for the same reason.
func idles(rows map[string]setting, read func(string) error, why string, names ...string) {
	for _, name := range names {
		rows[name] = idle(read, why)
	}
}

// A family is a set of keys with a common prefix.
type family struct {
	prefix string
	setting
}

func (r *reader) keyFamilies() []family {
	return []family{
		{MetricsTLS, refused(text(nil), "", "the port for metrics has no such setting")},
		{"metricsProvider.", idle(text(nil), whyMetrics)},
		{"-", idle(text(nil), whyJava)}, // Java's options in SERVER_JVMFLAGS
		{"com.sun.management.", javaOnly(idle(text(nil), whyJava))},
		{"javax.net.ssl.", javaOnly(idle(text(nil), whyStores))},
		{"jdk.tls.", javaOnly(refused(text(nil), "", "what TLS may speak is set with enabledProtocols and ciphersuites, of ssl. and of ssl.quorum."))},
		{"org.bouncycastle.", javaOnly(refused(text(nil), "", whyProviders))},
		{superUsers, used(text(nil), "none", "more names that may do everything")},
		{providerKeys, refused(text(nil), builtInProviders, "only the schemes world, ip, digest, x509 and sasl are built in: prove names by a certificate or by SASL, and leave this line out")},
	}
}

// providerKeys is the prefix of the keys authProvider.1 and so on.
const providerKeys = "authProvider."

// providers configures the authentication providers. If a key occurs several times, its
// last value counts.
func (r *reader) providers() {
	for key, e := range r.seen {
		if strings.HasPrefix(key, providerKeys) {
			r.saslProvider = r.saslProvider || strings.HasSuffix(e.Value, ".SASLAuthenticationProvider")
			c := &r.out.Server.Auth
			c.Ensemble = c.Ensemble || strings.HasSuffix(e.Value, ".EnsembleAuthenticationProvider")
		}
	}
}

// ensembleProvider lets clients say which ensemble they want to reach.
const ensembleProvider = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"

func (r *reader) ensembleNames(v string) error {
	names := &r.out.Server.Auth.Ensembles
	*names = nil
	for name := range strings.SplitSeq(v, ",") {
		*names = append(*names, strings.TrimSpace(name))
	}
	return nil
}

// builtInProviders are the classes that authProvider.N may name because this server has
// what they do built in, provided that a port speaks TLS or a JAAS file is named.
const builtInProviders = "org.apache.zookeeper.server.auth.DigestAuthenticationProvider" +
	"|" + ensembleProvider +
	"|org.apache.zookeeper.server.auth.IPAuthenticationProvider" +
	"|org.apache.zookeeper.server.auth.SASLAuthenticationProvider" +
	"|org.apache.zookeeper.server.auth.X509AuthenticationProvider" +
	"|" + groupProvider

func (r *reader) fourLetterWords(v string) error {
	r.out.Server.FourLetterWords = nil
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name != "" {
			r.out.Server.FourLetterWords = append(r.out.Server.FourLetterWords, name)
		}
	}
	return nil
}

func (r *reader) compression(v string) error {
	c := snap.Compression(strings.ToLower(v))
	if !c.Valid() {
		return fmt.Errorf("%q is not gz or snappy", v)
	}
	r.out.Server.Compression = c
	return nil
}

func digestHash(into *string) func(string) error {
	return func(v string) error {
		if !auth.ValidHash(v) {
			return fmt.Errorf("%q is not known: write SHA1, SHA-256, SHA-512, SHA3-256 or another that Java names so", v)
		}
		*into = v
		return nil
	}
}

// enforced configures the schemes by which connections must authenticate.
func (r *reader) enforced() {
	c := &r.out.Server.Auth
	switch {
	case !r.enforce && r.schemes != "":
		e := r.seen["enforce.auth.schemes"]
		r.remark(&e, "has no effect without enforce.auth.enabled=true")
	case !r.enforce:
	case r.needSASL: // as in Apache, proof by another scheme is not enough
		e := r.seen["enforce.auth.enabled"]
		r.remark(&e, "has no effect beside sessionRequireClientSASLAuth=true, which admits only clients that authenticate with SASL")
	case r.schemes == "":
		r.missing("enforce.auth.schemes", "is not set: name the schemes of which a client must prove one, such as digest,x509")
	default:
		for scheme := range strings.SplitSeq(r.schemes, ",") {
			if scheme = strings.TrimSpace(scheme); !c.Knows(scheme) {
				r.missing("enforce.auth.schemes", fmt.Sprintf("%q is not a scheme of this server: name ip, digest, x509 if a port for clients speaks TLS, or sasl if a JAAS file is named", scheme))
				return
			}
			c.Enforce = append(c.Enforce, scheme)
		}
	}
}

func (r *reader) superDigest(v string) error {
	user, hash, ok := strings.Cut(v, ":")
	if v != "" && (!ok || user == "" || hash == "") {
		return fmt.Errorf("want user:hash, where hash is the Base64 of the SHA1 of user:password")
	}
	r.out.Server.Auth.SuperDigest = v
	return nil
}

// superUser remarks on a hash that no password has: nobody could be the super user.
func (r *reader) superUser() {
	c := &r.out.Server.Auth
	user, hash, given := strings.Cut(c.SuperDigest, ":")
	_, like, _ := strings.Cut(c.Digest(user+":"), ":")
	want, _ := base64.StdEncoding.DecodeString(like)
	got, err := base64.StdEncoding.DecodeString(hash)
	if !given || err == nil && len(got) == len(want) {
		return
	}
	how := "Base64 of the " + cmp.Or(c.Hash, "SHA1") + " of user:password"
	if c.Hash == "" || c.Hash == "SHA1" {
		how += ", which `printf %s " + user + ":PASSWORD | openssl dgst -sha1 -binary | base64` prints"
	}
	e := r.seen["DigestAuthenticationProvider.superDigest"]
	r.remark(&e, "has no effect: what is behind the colon is no hash; it is the %s", how)
}

// unanswered remarks on four-letter words that the server does not answer.
func (r *reader) unanswered() {
	for _, name := range r.out.Server.FourLetterWords {
		if e := r.seen["4lw.commands.whitelist"]; name != "*" && !(admin.Commands{}).Known(name) {
			r.remark(&e, "%q is not a four-letter word of this server", name)
		}
	}
}
