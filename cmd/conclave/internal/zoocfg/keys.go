package zoocfg

import (
	"fmt"
	"math"
	"strings"

	"github.com/conclave-project/conclave/internal/auth"
	"github.com/conclave-project/conclave/internal/snap"
)

// setting is what one key means here.
type setting struct {
	read    func(string) error // checks the value, and takes it if it has an effect
	without string             // why the key has no effect; "" if it has one
	served  string             // with a value other than this ("|" between several), the key asks for what is not served
	refuse  bool               // then it is an error and not a remark

	inEnsemble bool // that is so in an ensemble; alone a server has no use for it
}

// used has an effect.
func used(read func(string) error) setting { return setting{read: read} }

// idle is accepted and changes nothing here, and why.
func idle(read func(string) error, why string) setting { return setting{read: read, without: why} }

// later asks, with another value than served, for what this version does not
// have yet; the server starts without it and says so.
func later(read func(string) error, served, what string) setting {
	return setting{read: read, without: what, served: served}
}

// refused is later for what it would be less safe to start without.
func refused(read func(string) error, served, what string) setting {
	return setting{read: read, without: what, served: served, refuse: true}
}

// inEnsemble is s for an ensemble; a standalone server has no use for it.
func inEnsemble(s setting) setting {
	s.inEnsemble = true
	return s
}

// asks reports whether a value asks for what is not served.
func (s *setting) asks(value string) bool {
	if s.served == "" {
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
	whyMaster    = "this version has no observer masters: observers follow the leader"
	whyAddresses = "all addresses of a server are tried"
	whyOracle    = "this version asks no oracle"
	whyLoop      = "requests are batched by what has arrived, not by time and number"
	whyThreads   = "there are no pools of threads to size"
	whyCache     = "replies are read from the tree, there is no cache of them"
	whyLimits    = "requests are bounded by globalOutstandingLimit and jute.maxbuffer"
	whyTLS       = "Go's own TLS is used"
	whyTickets   = "a ticket is asked for again before it ends"
	whyAdmin     = "this version serves no HTTP admin port"
	whyMetrics   = "this version has no metrics provider; mntr gives the figures"
	whyJava      = "only of the Java process"
	whyAudit     = "this version writes no audit log"
	whyFormat    = "files are written as ZooKeeper 3.9 writes them by default"
)

// keys is the table of all keys with a name of their own, for one reader.
func (r *reader) keys() map[string]setting {
	table := map[string]setting{}
	for _, part := range []map[string]setting{
		r.placeKeys(), r.clientKeys(), r.storageKeys(), r.authKeys(), r.ensembleKeys(), r.tlsKeys(), r.saslKeys(), r.tuningKeys(),
	} {
		for name, s := range part {
			table[name] = s
		}
	}
	return table
}

// placeKeys say where data is and where clients connect.
func (r *reader) placeKeys() map[string]setting {
	c := &r.out.Server.PlaceConfig
	return map[string]setting{
		"dataDir":                 used(text(&c.DataDir)),
		"dataLogDir":              used(text(&c.DataLogDir)),
		"clientPort":              used(port(&r.clientPort)),
		"clientPortAddress":       used(text(&r.clientHost)),
		"clientPortListenBacklog": idle(number[int](nil, -1, math.MaxInt32), "the system's own backlog is used"),
		"secureClientPort":        used(port(&r.securePort)),
		"secureClientPortAddress": used(text(&r.secureHost)),
		"serverCnxnFactory":       idle(text(nil), whyThreads),
	}
}

// clientKeys are about sessions, connections and requests.
func (r *reader) clientKeys() map[string]setting {
	c := &r.out.Server.ClientConfig
	return map[string]setting{
		"tickTime":                               used(millis(&c.TickTime, 1)),
		"minSessionTimeout":                      used(millis(&c.SessionMin, -1)),
		"maxSessionTimeout":                      used(millis(&c.SessionMax, -1)),
		"maxClientCnxns":                         used(number(&c.ConnsPerIPMax, math.MinInt32, math.MaxInt32)),
		"maxCnxns":                               used(number(&c.ConnsMax, math.MinInt32, math.MaxInt32)),
		"jute.maxbuffer":                         used(number(&c.FrameBytesMax, 1, 1<<30)),
		"jute.maxbuffer.extrasize":               used(number(&c.ExtraBytesMax, 0, 1<<30)),
		"nio.sessionlessCnxnTimeout":             used(millis(&c.HandshakeTime, 1)),
		"globalOutstandingLimit":                 used(number(&c.InFlightMax, 1, 1<<20)),
		"extendedTypesEnabled":                   used(flag(&c.ExtendedTypes)),
		"emulate353TTLNodes":                     refused(flag(nil), "false", "TTL znodes of ZooKeeper 3.5.3 are not read"),
		"enforceQuota":                           used(flag(&c.EnforceQuota)),
		"4lw.commands.whitelist":                 used(r.fourLetterWords),
		"znode.container.checkIntervalMs":        used(millis(&c.ReapInterval, 1)),
		"znode.container.maxPerMinute":           used(number(&c.ReapPerMinute, 1, math.MaxInt32)),
		"znode.container.maxNeverUsedIntervalMs": used(millis(&c.ContainerUnused, 0)),
		"readonlymode.enabled":                   inEnsemble(used(flag(&c.ReadOnlyMode))),
		"localSessionsEnabled":                   inEnsemble(used(flag(&c.LocalSessions))),
		"localSessionsUpgradingEnabled":          inEnsemble(used(flag(&c.UpgradeSessions))),
		"closeSessionTxn.enabled":                later(flag(nil), "true", whyFormat),
		"request_stale_connection_check":         idle(flag(nil), whyLimits),
		"request_stale_latency_check":            idle(flag(nil), whyLimits),
		"largeRequestMaxBytes":                   idle(number[int64](nil, math.MinInt32, math.MaxInt64), whyLimits),
		"largeRequestThreshold":                  idle(number[int64](nil, math.MinInt32, math.MaxInt64), whyLimits),
		"throttled_op_wait_time":                 idle(number[int](nil, 0, math.MaxInt32), whyLimits),
		"enableEagerACLCheck":                    idle(flag(nil), "a write is checked once, by the leader"),
		"watchManagerName":                       idle(text(nil), "there is one kind of watch table"),
		"bitHashCacheSize":                       idle(number[int](nil, 0, math.MaxInt32), "there is one kind of watch table"),
		"maxResponseCacheSize":                   idle(number[int](nil, math.MinInt32, math.MaxInt32), whyCache),
		"maxGetChildrenResponseCacheSize":        idle(number[int](nil, math.MinInt32, math.MaxInt32), whyCache),
	}
}

// storageKeys are about files.
func (r *reader) storageKeys() map[string]setting {
	c := &r.out.Server.StorageConfig
	const kib = 1 << 10
	return map[string]setting{
		"preAllocSize":                       used(scaled(&c.PreallocBytes, 0, 1<<31-1, kib)),
		"snapCount":                          used(number(&c.SnapCount, 2, math.MaxInt32)),
		"snapSizeLimitInKb":                  used(scaled(&c.SnapBytes, math.MinInt32, 1<<40, kib)),
		"txnLogSizeLimitInKb":                used(scaled(&c.LogBytesMax, math.MinInt32, 1<<40, kib)),
		"forceSync":                          used(choice(&c.NoSync, "no", "yes")),
		"fsync.warningthresholdms":           idle(number[int64](nil, 0, math.MaxInt32), "a slow sync is seen in mntr"),
		"autopurge.snapRetainCount":          used(number(&c.PurgeRetain, 0, math.MaxInt32)),
		"autopurge.purgeInterval":            used(purgeInterval(&c.PurgeInterval)),
		"digest.enabled":                     used(notFlag(&c.NoDigest)),
		"serializeLastProcessedZxid.enabled": later(flag(nil), "true", whyFormat),
		"snapshot.trust.empty":               used(flag(&c.TrustEmpty)),
		"snapshot.compression.method":        used(r.compression),
		"db.autocreate":                      used(notFlag(&c.NoAutoCreate)),
		"datadir.autocreate":                 used(notFlag(&c.NoMkdir)),
		"commitLogCount":                     used(number(&c.HistoryMax, 0, 1<<20)),
		"snapshotSizeFactor":                 idle(decimal, whySync),
		"syncEnabled":                        idle(flag(nil), "an observer keeps its log like any other server"),
		"flushDelay":                         idle(number[int64](nil, math.MinInt32, math.MaxInt32), whyLoop),
		"maxWriteQueuePollTime":              idle(number[int64](nil, math.MinInt32, math.MaxInt32), whyLoop),
		"maxBatchSize":                       idle(number[int64](nil, math.MinInt32, math.MaxInt32), whyLoop),
	}
}

// authKeys are about who may do what.
func (r *reader) authKeys() map[string]setting {
	c := &r.out.Server.Auth
	return map[string]setting{
		"skipACL": used(choice(&c.SkipACL, "yes", "no")),
		"DigestAuthenticationProvider.superDigest": used(r.superDigest),
		"DigestAuthenticationProvider.enabled":     used(notFlag(&c.NoDigest)),
		"DigestAuthenticationProvider.digestAlg":   used(digestHash(&c.Hash)),
		"X509AuthenticationProvider.superUser":     used(text(&c.X509Super)),
		"enforce.auth.enabled":                     used(flag(&r.enforce)),
		"enforce.auth.schemes":                     used(text(&r.schemes)),
		"audit.enable":                             later(flag(nil), "false", whyAudit),
	}
}

// ensembleKeys matter among several servers. The server, group and weight lines
// are read by line.
func (r *reader) ensembleKeys() map[string]setting {
	c := &r.out.Server.EnsembleConfig
	count := number[int](nil, math.MinInt32, math.MaxInt32)
	return map[string]setting{
		"initLimit":                     used(number(&c.InitLimit, 0, math.MaxInt32)),
		"syncLimit":                     used(number(&c.SyncLimit, 0, math.MaxInt32)),
		"connectToLearnerMasterLimit":   idle(count, "initLimit bounds the connecting too"),
		"dynamicConfigFile":             used(r.dynamicFile),
		"standaloneEnabled":             used(flag(&r.standalone)),
		"reconfigEnabled":               used(flag(&c.ReconfigEnabled)),
		"peerType":                      used(r.peerType),
		"electionAlg":                   used(fastElection),
		"electionPortBindRetry":         idle(count, "a port that cannot be opened ends the start"),
		"cnxTimeout":                    used(millis(&c.ConnectTime, 1)),
		"observerMasterPort":            inEnsemble(later(port(nil), "0", whyMaster)),
		"observer.reconnectDelayMs":     idle(count, "an observer looks for the leader at once"),
		"observer.election.DelayMs":     idle(count, "an observer looks for the leader at once"),
		"quorumListenOnAllIPs":          used(flag(&r.listenOnAll)),
		"leaderServes":                  inEnsemble(used(choice(&c.NoClientsOfLeader, "no", "yes"))),
		"learner.asyncSending":          idle(flag(nil), whyLinks),
		"learner.closeSocketAsync":      idle(flag(nil), whyLinks),
		"leader.closeSocketAsync":       idle(flag(nil), whyLinks),
		"leader.maxConcurrentSnapSyncs": idle(count, whySync),
		"leader.maxConcurrentDiffSyncs": idle(count, whySync),
		"forward_learner_requests_to_commit_processor_disabled": idle(flag(nil), whyThreads),
		"multiAddress.enabled":                    used(flag(&c.Reconfig.MultiAddress)),
		"multiAddress.reachabilityCheckEnabled":   idle(flag(nil), whyAddresses),
		"multiAddress.reachabilityCheckTimeoutMs": idle(count, whyAddresses),
		"oraclePath":                  inEnsemble(later(text(nil), "none", whyOracle)),
		"conclave.linearizableReads":  used(flag(&c.LinearizableReads)),
		"conclave.electionFinalizeMs": used(millis(&c.ElectionFinalize, 0)),
		"conclave.silenceMs":          used(millis(&c.SilenceTime, 0)),
	}
}

// peerType reads the role that the static file gives this server.
func (r *reader) peerType(v string) error {
	return choice(&r.observer, "observer", "participant")(strings.ToLower(v))
}

// fastElection refuses the elections that Apache no longer has either.
func fastElection(v string) error {
	if n, err := decode(v); err != nil || n != 3 {
		return fmt.Errorf("%q is not 3, the fast election: there is no other", v)
	}
	return nil
}

// tuningKeys shape the Java process.
func (r *reader) tuningKeys() map[string]setting {
	count := number[int64](nil, math.MinInt32, math.MaxInt64)
	return map[string]setting{
		"metricsProvider.className":               later(text(nil), builtInMetrics, whyMetrics),
		"admin.enableServer":                      later(flag(nil), "false", whyAdmin),
		"jvm.pause.monitor":                       idle(flag(nil), whyJava),
		"jvm.pause.info-threshold.ms":             idle(count, whyJava),
		"jvm.pause.warn-threshold.ms":             idle(count, whyJava),
		"jvm.pause.sleep.time.ms":                 idle(count, whyJava),
		"commitProcessor.numWorkerThreads":        idle(count, whyThreads),
		"commitProcessor.shutdownTimeout":         idle(count, whyThreads),
		"commitProcessor.maxReadBatchSize":        idle(count, whyThreads),
		"commitProcessor.maxCommitBatchSize":      idle(count, whyThreads),
		"nio.numSelectorThreads":                  idle(count, whyThreads),
		"nio.numWorkerThreads":                    idle(count, whyThreads),
		"nio.directBufferBytes":                   idle(count, whyThreads),
		"nio.workerShutdownTimeout":               idle(count, whyThreads),
		"nio.shutdownTimeout":                     idle(count, whyThreads),
		"netty.advancedFlowControl.enabled":       idle(flag(nil), whyThreads),
		"netty.server.outstandingHandshake.limit": idle(count, whyThreads),
		"requestThrottler.shutdownTimeout":        idle(count, whyThreads),
	}
}

// A family is keys known by how they begin.
type family struct {
	prefix string
	setting
}

func (r *reader) keyFamilies() []family {
	return []family{
		{"metricsProvider.", idle(text(nil), whyMetrics)},
		{"admin.", idle(text(nil), whyAdmin)},
		{"connection_throttle_", idle(text(nil), whyLimits)},
		{"request_throttle_", idle(text(nil), whyLimits)},
		{"X509AuthenticationProvider.", idle(text(nil), "it is no setting of ZooKeeper's")},
		{superUsers, used(r.superUser)},
		{"authProvider.", setting{read: r.provider, served: builtInProviders, refuse: true,
			without: "only the schemes world, ip, digest, x509 and sasl are built in"}},
	}
}

// provider reads the class of a way to prove who one is.
func (r *reader) provider(class string) error {
	r.saslProvider = r.saslProvider || strings.HasSuffix(class, ".SASLAuthenticationProvider")
	return nil
}

// builtInMetrics are the providers that come to what mntr shows, or to nothing.
const builtInMetrics = "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider" +
	"|org.apache.zookeeper.metrics.impl.NullMetricsProvider"

// builtInProviders are the classes that authProvider.N may name because what they
// do is here anyway, where a port speaks TLS or a JAAS file is named.
const builtInProviders = "org.apache.zookeeper.server.auth.DigestAuthenticationProvider" +
	"|org.apache.zookeeper.server.auth.IPAuthenticationProvider" +
	"|org.apache.zookeeper.server.auth.SASLAuthenticationProvider" +
	"|org.apache.zookeeper.server.auth.X509AuthenticationProvider"

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

// enforced takes over the schemes that connections must prove.
func (r *reader) enforced() {
	c := &r.out.Server.Auth
	switch {
	case !r.enforce && r.schemes != "":
		e := r.seen["enforce.auth.schemes"]
		r.remark(&e, "has no effect without enforce.auth.enabled=true")
	case !r.enforce:
	case r.schemes == "":
		r.missing("enforce.auth.schemes", "is not set: name the schemes of which a client must prove one, such as digest,x509")
	default:
		for scheme := range strings.SplitSeq(r.schemes, ",") {
			if scheme = strings.TrimSpace(scheme); !c.Knows(scheme) {
				r.missing("enforce.auth.schemes", fmt.Sprintf("%q is no scheme of this server: ip and digest are, x509 where a port for clients speaks TLS, and sasl where a JAAS file is named", scheme))
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
