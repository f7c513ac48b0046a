package zoocfg

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/conclave-project/conclave/cmd/conclave/internal/traces"
)

// metricsKeys are the keys of the Prometheus provider and its ports.
func (r *reader) metricsKeys() map[string]setting {
	m := &r.out.Metrics
	*m = Metrics{Host: "0.0.0.0", Port: 7000, Process: true, TLSPort: NoPort}
	m.TLS.Reload = true // as in Apache, which looks every ten minutes
	count := number[int64](nil, math.MinInt32, math.MaxInt64)
	rows := map[string]setting{
		"metricsProvider.className":     later(r.metricsProvider, builtInMetrics, whyMetrics),
		"metricsProvider.httpHost":      used(text(&m.Host), "0.0.0.0", "with the provider for Prometheus: the address on which metrics are served. Everybody who reaches it can read them, unless a token or a certificate is required"),
		"metricsProvider.httpPort":      used(portOrNone(&m.Port), "7000, and none with `httpsPort`", "with the provider for Prometheus: the port; 0 selects a free one, which the log names, and -1 none"),
		"metricsProvider.httpsPort":     used(portOrNone(&m.TLSPort), "none", "a port that uses TLS, in addition to `httpPort` or alone; with the same number for both, one port uses TLS with clients that begin with it, and clear text with others. 0 selects a free one, -1 none. A key of ZooKeeper 3.10"),
		"metricsProvider.exportJvmInfo": used(flag(&m.Process), "true", "with the provider for Prometheus: also serve figures of the process and of the Go runtime, in place of Java's"),
		"metricsProvider.httpVersion":   idle(text(nil), "HTTP/1.1 is spoken"),
		"conclave.metricsTokenFile": used(text(&m.TokenFile), "none", "with the provider for Prometheus: a file with tokens, as `conclave.adminTokenFile`, of which every request must show one. "+
			"Not in Apache ZooKeeper"),
	}
	idles(rows, count, whyScrape, "metricsProvider.maxQueueSize", "metricsProvider.numWorkerThreads",
		"metricsProvider.workerShutdownTimeoutMs")
	idles(rows, count, "quantiles are those of the last ten minutes", "metricsProvider.prometheusMetricsSummaryRotateIntervalSeconds")
	for name, setting := range map[string]setting{
		"enabledProtocols":        used(text(&m.TLS.Protocols), "TLSv1.2,TLSv1.3", "versions of TLS; older ones are not served"),
		"ciphersuites":            used(text(&m.TLS.Ciphers), "Go's choice", "cipher suites of TLS 1.2; all those of TLS 1.3 are always enabled"),
		"keyStore.location":       used(text(&m.TLS.Key.Location), "must be set with `httpsPort`", "the key and certificate of the TLS port. Files that change are read again within two seconds"),
		"keyStore.type":           used(text(&m.TLS.Key.Type), "by the end of the name", storeType),
		"keyStore.password":       used(text(&m.TLS.Key.Password), "empty", "the password of the store, and of the key in it"),
		"keyStore.passwordPath":   used(text(&m.TLS.Key.PasswordPath), "none", passwordPath+". Not in Apache"),
		"trustStore.location":     used(text(&m.TLS.Trust.Location), "must be set unless `need.client.auth` is false", "the authorities of the certificates that are accepted"),
		"trustStore.type":         used(text(&m.TLS.Trust.Type), "by the end of the name", storeType),
		"trustStore.password":     used(text(&m.TLS.Trust.Password), "empty", "opens the store"),
		"trustStore.passwordPath": used(text(&m.TLS.Trust.PasswordPath), "none", passwordPath+". Not in Apache"),
		"need.client.auth":        used(notFlag(&r.metricsOptional), "true", "a client that scrapes over TLS must show a certificate"),
		"want.client.auth": used(notFlag(&r.metricsUnasked), "true; false without a trust store", "with `need.client.auth=false`: a client may show a certificate, and a bad one is refused. If both are false, "+
			"no client is asked"),
	} {
		rows[MetricsTLS+name] = setting
	}
	return rows
}

// MetricsTLS is the prefix of the TLS settings of the port for metrics.
const MetricsTLS = "metricsProvider.ssl."

// portOrNone reads a TCP port; 0 is a free port, NoPort means no port.
func portOrNone(into *int) func(string) error { return number(into, NoPort, 65535) }

// metricsProvider reads the class that receives the metrics.
func (r *reader) metricsProvider(class string) error {
	r.out.Metrics.Serves = class == prometheusProvider
	return nil
}

// metrics remarks on settings of the ports without the provider, and on TLS settings
// without the TLS port. It also decides which certificates are required.
func (r *reader) metrics() {
	m := &r.out.Metrics
	_, plainGiven := r.seen["metricsProvider.httpPort"]
	if !plainGiven && m.TLSPort != NoPort {
		m.Port = NoPort
	}
	for _, key := range slices.Sorted(maps.Keys(r.seen)) {
		ofTLS := strings.HasPrefix(key, MetricsTLS)
		if !ofTLS && !slices.Contains([]string{"conclave.metricsTokenFile", "metricsProvider.httpHost", "metricsProvider.httpPort", "metricsProvider.httpsPort", "metricsProvider.exportJvmInfo"}, key) {
			continue
		}
		e := r.seen[key]
		switch {
		case !m.Serves:
			r.remark(&e, "has no effect without metricsProvider.className=%s", prometheusProvider)
		case ofTLS && m.TLSPort == NoPort:
			r.remark(&e, "has no effect without metricsProvider.httpsPort")
		}
	}
	switch {
	case !m.Serves:
	case m.TLSPort != NoPort:
		r.metricsAuth()
	case m.Port == NoPort:
		r.missing("metricsProvider.httpsPort", "is not set, and metricsProvider.httpPort is -1: name one of the two ports, or both")
	}
}

// metricsAuth decides whether scrapers must show a certificate. If no trust store is named,
// Apache takes the key store for it, and no scraper could show a matching certificate.
func (r *reader) metricsAuth() {
	const key = MetricsTLS + "trustStore.location"
	m := &r.out.Metrics
	wants, wantGiven := r.seen[MetricsTLS+"want.client.auth"]
	trusts := m.TLS.Trust.Location != ""
	switch {
	case !r.metricsOptional:
		m.TLS.ClientAuth = "need"
	case r.metricsUnasked, !trusts && !wantGiven:
		m.TLS.ClientAuth = "none"
	default:
		m.TLS.ClientAuth = "want"
	}
	switch {
	case trusts || m.TLS.ClientAuth == "none":
	case m.TLS.ClientAuth == "need":
		r.missing(key, "is not set: name the file with the authorities of scrapers' certificates, or set "+MetricsTLS+"need.client.auth=false")
	default:
		r.problem(wants, "asks for scrapers' certificates, but "+key+" names no authorities", "")
	}
}

const prometheusProvider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider"

// builtInMetrics are the provider for Prometheus, and the ones whose effect is what mntr
// shows, or nothing.
const builtInMetrics = prometheusProvider +
	"|org.apache.zookeeper.metrics.impl.DefaultMetricsProvider" +
	"|org.apache.zookeeper.metrics.impl.NullMetricsProvider"

// adminKeys are the keys of the admin server.
func (r *reader) adminKeys() map[string]setting {
	a := &r.out.Admin
	*a = Admin{Host: "127.0.0.1", Port: 8080, Path: "/commands", IdleMs: 30_000, SnapshotMs: 300_000}
	count := number[int64](nil, math.MinInt32, math.MaxInt64)
	return map[string]setting{
		"admin.enableServer":  used(flag(&a.Serves), "false", "serve the commands of ZooKeeper's admin server, `/livez`, `/readyz` and `/healthz` over HTTP"),
		"admin.serverAddress": used(text(&a.Host), "127.0.0.1", "the address of the admin port. Anyone who reaches it can read its answers and reset counters, unless a token or a certificate is required"),
		"admin.serverPort":    used(port(&a.Port), "8080", "the admin port; 0 selects a free one, which the log names"),
		"admin.commandURL":    used(r.commandPath, "/commands", "the path of the commands"),
		"admin.idleTimeout":   used(number(&a.IdleMs, 1, 86_400_000), "30000", "milliseconds after which a connection without a request is closed"),
		"admin.httpVersion":   idle(count, "HTTP/1.1 is spoken"),
		"admin.portUnification": used(flag(&a.TLS.PlainToo), "false", "the admin port uses TLS with clients that begin with it, and clear text with others. Its key and authorities "+
			"are those of `ssl.quorum.`: `keyStore.*`, `trustStore.*`, `crl` and `ocsp`, read again with "+
			"`sslQuorumReloadCertFiles`; the other keys of that family have no effect on it"),
		"admin.forceHttps": used(flag(&r.adminForced), "false", "the admin port accepts only TLS, with the same keys as `admin.portUnification`, which then has no effect"),
		"admin.needClientAuth": used(flag(&r.adminNeeds), "false", "a client that uses TLS on the admin port must show a certificate; otherwise no client is asked for one. With "+
			"`admin.portUnification`, a client without TLS needs none"),
		"admin.snapshot.enabled": used(flag(&a.Snapshots), "false", "the command `snapshot` is answered: a client that proves an identity with all permissions on / gets "+
			"a snapshot, which holds every znode, whatever its ACL. By default anybody has all permissions on /"),
		"admin.rateLimiterIntervalInMS": used(number(&a.SnapshotMs, 0, math.MaxInt32), "300000", "milliseconds that must pass between two snapshots on the admin port"),
		"conclave.adminTokenFile": used(text(&a.TokenFile), "none", "a file with tokens, one per line, each of at least 16 characters: the admin port answers only requests that show one, "+
			"as `Authorization: Bearer TOKEN`, as the password of any user, or as `X-Conclave-Token: TOKEN`. `/livez`, `/readyz` and `/healthz` need none. "+
			"A file that changes is read again within a second. Not in Apache ZooKeeper"),
		"admin.restore.enabled": idle(flag(nil), whyNoRestore),
	}
}

// commandPath reads the path of the commands on the admin port.
func (r *reader) commandPath(v string) error {
	if !adminPath.MatchString(v) {
		return fmt.Errorf("%q is not a path of letters, digits and -_./ such as /commands", v)
	}
	r.out.Admin.Path = v
	return nil
}

var adminPath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)

// admin remarks on settings of the port if it is not served, and configures its TLS.
func (r *reader) admin() {
	a := &r.out.Admin
	for _, key := range []string{
		"admin.serverAddress", "admin.serverPort", "admin.commandURL", "admin.idleTimeout", "admin.portUnification", "admin.forceHttps", "admin.needClientAuth",
		"admin.snapshot.enabled", "admin.rateLimiterIntervalInMS", "conclave.adminTokenFile",
	} {
		if e, given := r.seen[key]; given && !a.Serves {
			r.remark(&e, "has no effect without admin.enableServer=true")
		}
	}
	if e, given := r.seen["admin.rateLimiterIntervalInMS"]; given && a.Serves && !a.Snapshots {
		r.remark(&e, "has no effect without admin.snapshot.enabled=true")
	}
	if r.adminForced && a.TLS.PlainToo {
		e := r.seen["admin.portUnification"]
		r.remark(&e, "has no effect beside admin.forceHttps=true, as in Apache ZooKeeper: the port speaks only TLS")
	}
	a.TLS.Serves, a.TLS.PlainToo = a.Serves && (r.adminForced || a.TLS.PlainToo), a.TLS.PlainToo && !r.adminForced
	peers := &r.out.PeerTLS.Settings
	a.TLS.Settings = secure.Settings{Key: peers.Key, Trust: peers.Trust, CRL: peers.CRL, OCSP: peers.OCSP, Reload: peers.Reload, ClientAuth: "none"}
	if !r.adminNeeds {
		return
	}
	a.TLS.Settings.ClientAuth = "need"
	switch {
	case !a.Serves:
	case !a.TLS.Serves:
		r.missing("admin.needClientAuth", "is refused: nobody would be asked for a certificate without admin.forceHttps=true, or admin.portUnification=true, which lets in plain HTTP, too")
	case peers.Trust.Location == "":
		r.missing(PeerTLS+"trustStore.location", "is not set: name the file with the authorities of certificates for the admin port, or set admin.needClientAuth=false")
	}
}

// ofAdmin reports whether a key of the family for servers also applies to the admin port.
func (r *reader) ofAdmin(key string) bool {
	name := strings.TrimPrefix(key, PeerTLS)
	return strings.HasPrefix(name, "keyStore.") || strings.HasPrefix(name, "trustStore.") || r.adminNeeds && (name == "crl" || name == "ocsp")
}

// auditLogger are Apache's own loggers, including the one of 3.6. What they write is
// written by this server itself.
const auditLogger = "org.apache.zookeeper.audit.Slf4jAuditLogger|org.apache.zookeeper.audit.Log4jAuditLogger"

// auditKeys are the keys of the audit log.
func (r *reader) auditKeys() map[string]setting {
	a := &r.out.Server.Audit
	return map[string]setting{
		"audit.enable":     used(flag(&a.Enabled), "false", "write a line for each change that a client of this server makes or tries to make; the start is refused if the file cannot be written"),
		"audit.impl.class": refused(text(nil), auditLogger, "there are no Java classes here, and this one's lines are written"),
		"conclave.auditFile": used(text(&a.File), "`zookeeper_audit.log` in `dataDir`", "the file of the audit log; older files have .1, .2 and so on after its name. Apache ZooKeeper takes it from "+
			"the configuration of its logger"),
		"conclave.auditFileBytesMax": used(number(&a.BytesMax, 1<<10, 1<<40), "10485760 bytes", "the maximum size of a file of the audit log, after which the next one is begun"),
		"conclave.auditFilesKept":    used(number(&a.FilesKept, 1, 1000), "10", "how many older files of the audit log are kept"),
	}
}

// HTTP is where the dashboard is served, and what it may do.
type HTTP struct {
	Address string // "": it is not served
	Changes bool
}

// httpKeys are the keys of the dashboard.
func (r *reader) httpKeys() map[string]setting {
	return map[string]setting{
		"conclave.httpAddress": used(text(&r.out.HTTP.Address), "none", "address and port of the dashboard, such as `127.0.0.1:8080`. Only a loopback address is allowed, because "+
			"anybody who reaches the port has the rights of a client on this machine. See [Dashboard](dashboard.md). Not "+
			"in Apache ZooKeeper"),
		"conclave.httpChanges": used(flag(&r.out.HTTP.Changes), "false", "allow changes to elections and znodes in the dashboard"),
	}
}

// traceKeys are the keys for traces.
func (r *reader) traceKeys() map[string]setting {
	t := &r.out.Server.Trace
	t.Ratio = 0.001
	return map[string]setting{
		"conclave.traceEndpoint": used(r.traceEndpoint, "none", "the URL of an OpenTelemetry receiver (OTLP over HTTP), such as `http://localhost:4318`, which is sent spans "+
			"of some writes on their way through the ensemble, with their paths. See [Traces](operations.md#traces). Not "+
			"in Apache ZooKeeper"),
		"conclave.traceRatio": used(fraction(&t.Ratio), "0.001", "the fraction of all writes that is traced, 0 to 1. Must be the same on all servers, which determine by themselves which writes those are"),
	}
}

func (r *reader) traceEndpoint(v string) (err error) {
	r.out.TraceEndpoint, err = traces.Endpoint(v)
	return err
}
