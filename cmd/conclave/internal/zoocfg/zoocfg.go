package zoocfg

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/autobackup"
	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/txnlog"
	"github.com/conclave-project/conclave/internal/vfs"
)

// Config is the result of all settings.
type Config struct {
	Server server.Config

	ClientTLS TLS // for the ports for clients
	PeerTLS   TLS // for both ports for servers: Serves is sslQuorum, PlainToo portUnification
	SASL      SASL
	Metrics   Metrics
	Admin     Admin
	Backup    autobackup.Settings

	HTTP          HTTP
	TraceEndpoint string // where spans are sent; "" means nowhere

	// Remarks are for the operator: unknown keys, and values that ask for something that is
	// not served. Each is one line without a line end.
	Remarks []string
	// Notes are the keys that were given and have no meaning here, with the reasons.
	Notes []string
}

// Metrics is where Prometheus finds the server's metrics, if Serves.
type Metrics struct {
	Serves  bool
	Host    string
	Port    int  // NoPort: not opened
	Process bool // with metrics of the process, too

	TLSPort int // NoPort: not opened; equal to Port: one port for both
	TLS     secure.Settings

	TokenFile string // with the tokens of which a request shows one; "": none is needed
}

// NoPort is the number of a port that is not opened; 0 is a free one.
const NoPort = -1

// BothOnOne reports whether one port accepts connections with and without TLS.
func (m *Metrics) BothOnOne() bool { return m.TLSPort != NoPort && m.TLSPort == m.Port }

// Admin is where operators find the admin server, if Serves.
type Admin struct {
	Serves bool
	Host   string
	Port   int
	Path   string // of the commands
	IdleMs int64  // after which a connection without a request is closed

	Snapshots  bool  // the command snapshot is answered
	SnapshotMs int64 // between two of them

	TLS       TLS
	TokenFile string // with the tokens of which a request shows one; "": none is needed
}

// Problem is a setting that cannot be accepted.
type Problem struct {
	Entry
	Text string // what is wrong
	Near string // the known key that was probably meant, "" if none is near
}

// Error names the place, the key, what is wrong and the nearest known key.
func (p *Problem) Error() string {
	text := fmt.Sprintf("%s: %s: %s", p.where(), p.Key, p.Text)
	if p.Near != "" {
		text += fmt.Sprintf("; did you mean %s?", p.Near)
	}
	return text
}

// Read turns settings into a Config; if a key is given twice, the last one counts. fsys
// contains the other files that an ensemble needs: the one that dynamicConfigFile names,
// and myid in the data directory. The error joins a *Problem for each setting that cannot
// be accepted.
func Read(entries []Entry, fsys vfs.FS) (*Config, error) {
	r := &reader{out: &Config{Server: server.Default()}, fsys: fsys, given: entries, standalone: true, seen: map[string]Entry{}}
	r.table, r.families = r.keys(), r.keyFamilies()
	if at := slices.IndexFunc(entries, func(e Entry) bool { return e.Line != 0 }); at >= 0 {
		r.file = entries[at].File
	}
	for _, e := range entries {
		e.Key = strings.TrimSpace(e.Key)
		r.take(e)
	}
	r.finish()
	return r.out, errors.Join(r.errs...)
}

// reader is the state of one call of Read.
type reader struct {
	out      *Config
	errs     []error
	table    map[string]setting
	families []family
	seen     map[string]Entry // the last entry of each key
	taken    []Entry          // all entries in their order
	fsys     vfs.FS
	given    []Entry
	file     string // the static file, "" if there is none

	clientPort   int
	clientHost   string
	securePort   int    // secureClientPort
	secureHost   string // secureClientPortAddress
	recipients   string // conclave.backupRecipients
	recipFile    string // conclave.backupRecipientsFile
	standalone   bool   // standaloneEnabled
	enforce      bool   // enforce.auth.enabled
	schemes      string // enforce.auth.schemes
	needSASL     bool   // sessionRequireClientSASLAuth
	saslProvider bool   // authProvider.N names the SASL provider
	observer     bool   // peerType

	listenOnAll bool   // quorumListenOnAllIPs
	ownLine     string // ownLineKey
	oracle      string // oraclePath
	givenID     *int64 // myIDKey, nil if it is not set

	adminForced     bool // admin.forceHttps
	adminNeeds      bool // admin.needClientAuth
	metricsOptional bool // metricsProvider.ssl.need.client.auth=false
	metricsUnasked  bool // metricsProvider.ssl.want.client.auth=false

	lines       ensemble.Builder
	lineEntries []Entry // from which lines was set
	dynamic     []Entry // the entries of the dynamic configuration file
	dynamicName string  // "" if there is none
	inEnsemble  []Entry // entries that are refused only in an ensemble
}

// take reads one entry.
func (r *reader) take(e Entry) {
	if e.Line == 0 {
		e.Key = strings.TrimPrefix(e.Key, "zookeeper.")
	}
	before, twice := r.seen[e.Key]
	if twice && before.Line == 0 && e.Line != 0 && r.table[e.Key].javaOnly {
		r.remark(&e, "has no effect beside that in %s, as in Apache ZooKeeper, which takes it only as a Java property", before.where())
		return
	}
	r.taken = append(r.taken, e)
	if twice && before.Line != 0 && e.Line != 0 {
		r.remark(&e, "stands twice, line %d is not used", before.Line)
	}
	r.seen[e.Key] = e
	if lineKey(e.Key) {
		r.line(e)
		return
	}
	s, known := r.lookUp(e.Key)
	if !known {
		r.unknown(&e)
		return
	}
	value := e.Value
	if decimals[e.Key] {
		value = withoutZeros(value)
	}
	if err := s.read(value); err != nil {
		r.problem(e, err.Error(), "")
		return
	}
	if s.inEnsemble {
		r.inEnsemble = append(r.inEnsemble, e)
	} else {
		r.asked(e, s)
	}
	switch {
	case s.means == noMeaning:
		r.out.Notes = append(r.out.Notes, e.where()+": "+e.Key+": has no meaning here: "+s.without)
	case s.javaOnly && s.means == works && e.Line != 0:
		r.remark(&e, "has an effect here, but not in Apache ZooKeeper, which takes it only as a Java property, with -D")
	}
}

// asked refuses, or remarks on, a value that asks for what is not served.
func (r *reader) asked(e Entry, s setting) {
	switch {
	case !s.asks(e.Value):
	case s.refuse:
		r.problem(e, fmt.Sprintf("%q is refused: %s", e.Value, s.without), "")
	default:
		r.remark(&e, "%q has no effect: %s", e.Value, s.without)
	}
}

// lookUp finds a key by its name or its family.
func (r *reader) lookUp(key string) (setting, bool) {
	if s, ok := r.table[key]; ok {
		return s, true
	}
	for _, family := range r.families {
		if strings.HasPrefix(key, family.prefix) && len(key) > len(family.prefix) {
			return family.setting, true
		}
	}
	return setting{}, false
}

// unknown handles a key that is not in the table (zoocfg-C2).
func (r *reader) unknown(e *Entry) {
	if short, ok := strings.CutPrefix(e.Key, "zookeeper."); ok {
		if _, known := r.lookUp(short); known {
			r.remark(e, "has no effect in a file, as in Apache ZooKeeper, which puts zookeeper. in front itself; write %s", short)
			return
		}
	}
	if line := nearLine(e.Key); line != "" {
		r.problem(*e, "unknown key", line)
		return
	}
	near, distance := nearest(e.Key, r.table)
	if near != "" && distance <= typoMax(e.Key) {
		r.problem(*e, "unknown key", near)
		return
	}
	hint := ""
	if near != "" && distance <= len(e.Key)/2 {
		hint = "; the nearest known key is " + near
	}
	r.remark(e, "unknown key, it has no effect%s", hint)
}

func (r *reader) problem(e Entry, text, near string) {
	r.errs = append(r.errs, &Problem{Entry: e, Text: text, Near: near})
}

func (r *reader) remark(e *Entry, format string, args ...any) {
	r.out.Remarks = append(r.out.Remarks, e.where()+": "+e.Key+": "+fmt.Sprintf(format, args...))
}

// finish checks keys in combination.
func (r *reader) finish() {
	c := &r.out.Server
	before := len(r.errs)
	r.ensemble()
	understood := len(r.errs) == before
	r.providers()
	if c.DataDir == "" {
		r.missing("dataDir", "is not set: name the directory for snapshots and logs")
	} else if !filepath.IsAbs(c.DataDir) {
		e := r.seen["dataDir"]
		r.remark(&e, "%s is relative to the working directory", c.DataDir)
	}
	switch {
	case r.clientPort == 0 && r.clientHost != "":
		r.missing("clientPort", "is not set though clientPortAddress is")
	case r.clientPort == 0 && r.securePort != 0:
	case r.clientPort == 0 && understood:
		r.missing("clientPort", "is not set: no client could connect")
	default:
		c.ClientAddr = net.JoinHostPort(strings.Trim(r.clientHost, "[]"), strconv.Itoa(r.clientPort))
	}
	if c.Ensemble == nil {
		r.alone()
	}
	r.admin()
	r.tls()
	r.sasl()
	r.enforced()
	r.groups()
	r.unused()
	r.unanswered()
	r.superUser()
	r.limits()
	r.metrics()
	r.backups()
	if len(r.errs) == 0 {
		r.ports()
	}
}

// limits normalizes the different values that keys use for "none", and compares the session
// timeouts.
func (r *reader) limits() {
	c := &r.out.Server
	c.ConnsPerIPMax, c.ConnsMax = max(0, c.ConnsPerIPMax), max(0, c.ConnsMax)
	c.SnapBytes, c.LogBytesMax = max(0, c.SnapBytes), max(0, c.LogBytesMax)
	_, capped := r.seen["maxSessionTimeout"]
	capped = capped && c.SessionMax == 0
	if _, given := r.seen["minSessionTimeout"]; given && c.SessionMin == 0 {
		c.SessionMin = time.Millisecond // the smallest possible value: 0 would mean the server's default
	}
	c.SessionMin, c.SessionMax = max(0, c.SessionMin), max(0, c.SessionMax)
	r.counts("autopurge.snapRetainCount", c.PurgeRetain < 3, "%d counts as 3, as in Apache ZooKeeper", c.PurgeRetain)
	c.PurgeRetain = max(3, c.PurgeRetain)
	r.counts("commitLogCount", c.HistoryMax == 0, "0 counts as %d, as in Apache ZooKeeper", server.Default().HistoryMax)
	if c.HistoryMax == 0 {
		c.HistoryMax = server.Default().HistoryMax
	}
	r.counts("preAllocSize", c.PreallocBytes > txnlog.PreallocBytesMax, "%d KiB count as %d: a start after a crash reads what was taken ahead",
		c.PreallocBytes>>10, txnlog.PreallocBytesMax>>10)
	c.PreallocBytes = min(c.PreallocBytes, txnlog.PreallocBytesMax)
	c.Throttle.HandshakesMax, c.Throttle.LargeBytes = max(0, c.Throttle.HandshakesMax), max(0, c.Throttle.LargeBytes)
	r.idleThrottles()
	low, high := c.SessionMin, c.SessionMax
	if low == 0 {
		low = 2 * c.TickTime
	}
	if high == 0 && !capped {
		high = 20 * c.TickTime
	}
	r.ticks(low, high)
	if low > high && low <= timeMax {
		key := "maxSessionTimeout"
		if _, given := r.seen[key]; !given {
			key = "minSessionTimeout"
		}
		r.missing(key, fmt.Sprintf("the shortest session (%d ms) is longer than the longest (%d ms)",
			low/time.Millisecond, high/time.Millisecond))
	}
}

// counts remarks on a value that is replaced by another one.
func (r *reader) counts(key string, other bool, format string, args ...any) {
	if e := r.seen[key]; other {
		r.remark(&e, format, args...)
	}
}

// timeMax is the longest time that may result from a number of ticks: clients and servers
// exchange milliseconds in 32 bits, and Apache ZooKeeper multiplies in 32 bits.
const timeMax = math.MaxInt32 * time.Millisecond

// ticks refuses numbers of ticks whose time exceeds timeMax. low and high are the shortest
// and the longest session timeout.
func (r *reader) ticks(low, high time.Duration) {
	c := &r.out.Server
	const most = int64(timeMax / time.Millisecond)
	for _, session := range []struct {
		key  string
		time time.Duration
	}{{"minSessionTimeout", low}, {"maxSessionTimeout", high}} {
		if session.time > timeMax {
			r.missing("tickTime", fmt.Sprintf("%d ms make a session of %d ms where %s is not set, longer than %d ms: set fewer, or %s",
				c.TickTime/time.Millisecond, session.time/time.Millisecond, session.key, most, session.key))
		}
	}
	if c.Ensemble == nil {
		return
	}
	for _, limit := range []struct {
		key   string
		ticks int
	}{{"initLimit", c.InitLimit}, {"syncLimit", c.SyncLimit}} {
		if tick := int64(c.TickTime / time.Millisecond); int64(limit.ticks)*tick > most {
			r.missing(limit.key, fmt.Sprintf("%d ticks of %d ms are longer than %d ms: set fewer, or a shorter tickTime", limit.ticks, tick, most))
		}
	}
}

// idleThrottles remarks on settings that belong to a throttle, or another feature, that is
// off.
func (r *reader) idleThrottles() {
	c := &r.out.Server
	t := &c.Throttle
	noTokens := t.Conns.Tokens <= 0 // reported separately
	for _, one := range []struct {
		prefix, key string
		on          bool
	}{
		{"connection_throttle_", "connection_throttle_tokens", t.Conns.Tokens > 0},
		{"request_throttle_", "request_throttle_max_requests", t.RequestsMax > 0},
		{"request_stale_", "request_throttle_max_requests", t.RequestsMax > 0},
		{"throttled_op_wait_time", "request_throttle_max_requests", t.RequestsMax > 0},
		{"largeRequestMaxBytes", "largeRequestThreshold", t.LargeBytes > 0},
		{"connection_throttle_global_session_weight", "connection_throttle_weight_enabled", noTokens || t.Conns.Weights},
		{"connection_throttle_renew_session_weight", "connection_throttle_weight_enabled", noTokens || t.Conns.Weights},
		{"connection_throttle_local_session_weight", "connection_throttle_weight_enabled", noTokens || t.Conns.Weights},
		{"connection_throttle_drop_", "connection_throttle_freeze_time", noTokens || t.Conns.FreezeTime >= 0},
		{"connection_throttle_decrease_ratio", "connection_throttle_freeze_time", noTokens || t.Conns.FreezeTime >= 0},
		{"netty.server.outstandingHandshake.limit", "secureClientPort", r.out.ClientTLS.Serves},
		{"conclave.audit", "audit.enable", c.Audit.Enabled},
		{"autopurge.snapRetainCount", "autopurge.purgeInterval", c.PurgeInterval > 0},
		{"ensembleAuthName", "authProvider.ensemble=" + ensembleProvider, c.Auth.Ensemble},
		{"localSessionsUpgradingEnabled", "localSessionsEnabled", c.LocalSessions || c.Ensemble == nil},
		{"conclave.reconfigSecurePorts", "reconfigEnabled", c.ReconfigEnabled || c.Ensemble == nil},
		{ownLineKey, "reconfigEnabled", c.ReconfigEnabled || c.Ensemble == nil},
		{"conclave.trace", "conclave.traceEndpoint", r.out.TraceEndpoint != ""},
		{"conclave.httpChanges", "conclave.httpAddress", r.out.HTTP.Address != ""},
		{"conclave.backup", backupPlace, r.out.Backup.Place != ""},
	} {
		for _, name := range slices.Sorted(maps.Keys(r.seen)) {
			if e := r.seen[name]; !one.on && name != one.key && strings.HasPrefix(name, one.prefix) && r.table[name].means == works {
				r.remark(&e, "has no effect: %s is not set", one.key)
			}
		}
	}
}

// missing reports a problem with a key that may not have been given at all.
func (r *reader) missing(key, text string) {
	e, given := r.seen[key]
	if !given {
		e = Entry{Key: key, File: r.file}
	}
	if !given && r.file != "" {
		r.errs = append(r.errs, fmt.Errorf("%s: %s %s", r.file, key, text))
		return
	}
	r.problem(e, text, "")
}
