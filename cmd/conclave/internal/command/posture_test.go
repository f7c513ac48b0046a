package command

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/zoocfg"
	"github.com/conclave-project/conclave/internal/peernet"
	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/vfs"
)

const plainPosture = `clients    :2181: in clear text
identities world, ip, digest
must prove nothing: every client that connects is served, as far as ACLs let it
super user nobody
ACLs       are kept
commands   srvr: on the ports for clients, for everybody who can reach them
servers    none: the server is standalone, no port for others is open
admin      none: no admin port is open
metrics    none: no port for Prometheus is open
disk       replies wait until a write is on disk
audit      none: changes are not recorded (audit.enable=false)
backups    none: this server takes no backups by itself
limits     60 connections from one address (of IPv6 from one /128); 1000 requests in progress, of 1048575 bytes at most; quotas are logged, not enforced
`

// TestCheckSaysWhoMayDoWhat checks that each setting changes the lines that it is about, and no
// others.
func TestCheckSaysWhoMayDoWhat(t *testing.T) {
	const ensemble = "initLimit=5\nsyncLimit=5\nserver.1=a:2888:3888;2181\nserver.2=b:2889:3889;2181\nserver.3=c:2890:3890;2181\n"
	const prometheus = "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n"
	const trust, scraped = "ssl.quorum.trustStore.location=/t.pem\n", "metricsProvider.httpsPort=7443\nmetricsProvider.ssl.trustStore.location=/t.pem\n"
	const groups = "org.apache.zookeeper.server.auth.znode.groupacl.X509ZNodeGroupAclProvider"
	proofs := func(must bool) func(*server.Config) {
		return func(c *server.Config) { c.PeerProofs = &peernet.Proofs{Must: must} }
	}
	for name, c := range map[string]struct {
		lines  string
		change func(*server.Config)
		want   []string // lines that replace those with the same beginning
	}{
		"nothing": {},
		"an audit log": {lines: "audit.enable=true\nconclave.auditFile=/var/log/audit", want: []string{
			"audit      /var/log/audit has a line for each change that a client makes or tries; clients do not wait if it cannot be written"}},
		"a dashboard": {lines: "conclave.httpAddress=127.0.0.1:8080", want: []string{
			"backups    none: this server takes no backups by itself\ndashboard  127.0.0.1:8080: everybody on this machine reads what anyone may, and changes nothing\n" +
				"dashboard  it shows the paths of all writes, and the ids of sessions: anybody who knows one can take it over at the port for clients"}},
		"a dashboard with changes": {lines: "conclave.httpAddress=127.0.0.1:8080\nconclave.httpChanges=true", want: []string{
			"backups    none: this server takes no backups by itself\ndashboard  127.0.0.1:8080: everybody on this machine reads what anyone may, and changes what anyone may (conclave.httpChanges)\n" +
				"dashboard  it shows the paths of all writes, and the ids of sessions: anybody who knows one can take it over at the port for clients"}},
		"traces": {lines: "conclave.traceEndpoint=http://u:p@collector:4318\nconclave.traceRatio=0.01", want: []string{
			"backups    none: this server takes no backups by itself\ntraces     http://xxxxx@collector:4318/v1/traces gets spans of 0.01 of all writes, with their paths"}},
		"backups": {lines: "conclave.backupPlace=/backup\nconclave.backupEvery=5m\nconclave.backupKeepFor=30d", want: []string{
			"backups    to /backup every 5m by this server, whatever its role; what the last 720h do not need is removed; in clear text"}},
		"super users whom nobody can be": {lines: "X509AuthenticationProvider.superUser=CN=x\nsuperUser=bob"},
		"TLS on a port of its own": {lines: "secureClientPort=2281\nsuperUser=bob\nX509AuthenticationProvider.superUser=CN=x", want: []string{
			"clients    :2181: in clear text\nclients    :2281: TLS, a certificate is required",
			"identities world, ip, digest, x509", "super user x509 CN=x",
		}},
		"TLS alone": {lines: "clientPort=0\nsecureClientPort=2281\nssl.clientHostnameVerification=true\nssl.crl=true", want: []string{
			"clients    :2281: TLS, a certificate is required (for the address it comes from, not revoked)",
			"identities world, ip, digest, x509",
			"must prove nothing but the certificate: every client that has one is served, as far as ACLs let it",
		}},
		"TLS and not on one port, without certificates": {lines: "client.portUnification=true\nssl.clientAuth=none", want: []string{
			"clients    :2181: in clear text, or TLS, no certificate is asked for",
			"identities world, ip, digest, x509",
		}},
		"proofs": {lines: "enforce.auth.enabled=true\nenforce.auth.schemes=digest,x509\nclient.portUnification=true\nssl.clientAuth=want\n" +
			"DigestAuthenticationProvider.superDigest=root:eXJov8znpQ4dl1Mi6FnyKh1mSgw=", want: []string{
			"clients    :2181: in clear text, or TLS, a certificate is asked for, but clients without one get in",
			"identities world, ip, digest, x509", "super user digest root",
			"must prove nothing: every client may add a name and a password of its own, which are an identity of the scheme digest",
		}},
		"a scheme that proves nothing": {lines: "enforce.auth.enabled=true\nenforce.auth.schemes=ip", want: []string{
			"must prove nothing: every client has an address, which is an identity of the scheme ip"}},
		"SASL": {lines: "sessionRequireClientSASLAuth=true\njava.security.auth.login.config=/jaas\nsuperUser=bob",
			change: func(c *server.Config) { c.SASL = func() sasl.Server { return nil } }, want: []string{
				"identities world, ip, digest, sasl", "must prove an identity of the scheme sasl", "super user sasl bob; sasl super, where an ACL has an entry of that scheme"}},
		"schemes that prove something": {lines: "enforce.auth.enabled=true\nenforce.auth.schemes=x509,sasl\nclient.portUnification=true\njava.security.auth.login.config=/jaas", want: []string{
			"clients    :2181: in clear text, or TLS, a certificate is required", "identities world, ip, digest, x509, sasl; but no client can prove itself by sasl",
			"must prove an identity of one of the schemes x509, sasl"}},
		"SASL that nobody can use": {lines: "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", want: []string{
			"identities world, ip, digest, sasl; but no client can prove itself by sasl"}},
		"everybody may do everything": {lines: "skipACL=yes\nforceSync=no\n4lw.commands.whitelist=*", want: []string{
			"ACLs       are ignored: every client may do everything (skipACL)", "commands   all of four letters: on the ports for clients, for everybody who can reach them",
			"disk       a crash of the machine loses acknowledged writes: replies do not wait for the disk (forceSync=no)",
		}},
		"limits": {lines: "maxClientCnxns=0\nmaxCnxns=9\nconnection_throttle_tokens=5\nrequest_throttle_max_requests=7\nlargeRequestThreshold=99\n" +
			"netty.server.outstandingHandshake.limit=3\nenforceQuota=true", want: []string{
			"limits     9 in all; 5 clients connect at a time, 1 more every 1ms; 3 TLS handshakes at a time; " +
				"1000 requests in progress, of 1048575 bytes at most; 7 of them in the server's loop; those of more than 99 bytes take at most 104857600 together; quotas are enforced"}},
		"limits of identities": {lines: "conclave.identityConnectionsMax=4\nconclave.sessionWatchesMax=5\nconclave.identityWatchesMax=6\nconclave.watchesMax=7\n" +
			"conclave.sessionRequestsPerSecond=8\nconclave.addressBytesPerSecond=9\nconclave.identityRequestsPerSecond=10", want: []string{
			"limits     60 connections from one address (of IPv6 from one /128); 1000 requests in progress, of 1048575 bytes at most; " +
				"8 requests per second of one connection; 9 bytes of requests per second of one address; 10 requests per second of one identity; " +
				"4 connections of one identity; 5 watches of one session; 6 watches of one identity; 7 watches of all clients; quotas are logged, not enforced"}},
		"ensemble": {lines: ensemble, want: []string{
			"servers    b:2889: in clear text\nservers    b:3889: in clear text\nservers    another server is accepted if it says that it is one: let nobody else reach these ports"}},
		"ensemble with TLS": {lines: ensemble + "sslQuorum=true\nreadonlymode.enabled=true\n4lw.commands.whitelist=ruok,isro", want: []string{
			"commands   srvr isro ruok: on the ports for clients, for everybody who can reach them",
			"servers    b:2889: TLS, a certificate is required (for the address it comes from)\n" +
				"servers    b:3889: TLS, a certificate is required (for the address it comes from)\nservers    another server is accepted if it has the certificate of a host of the configuration"}},
		"ensemble with TLS that servers join": {lines: ensemble + "sslQuorum=true\nreconfigEnabled=true", want: []string{
			"servers    b:2889: TLS, a certificate is required (for the address it comes from)\n" +
				"servers    b:3889: TLS, a certificate is required (for the address it comes from)\nservers    another server is accepted if it has a certificate and says that it is one: give the servers an authority of their own; a member needs one for its host"}},
		"ensemble with TLS that servers of the configuration join": {lines: ensemble + "sslQuorum=true\nreconfigEnabled=true\nconclave.sslQuorumMembersOnly=true", want: []string{
			"servers    b:2889: TLS, a certificate is required (for the address it comes from)\n" +
				"servers    b:3889: TLS, a certificate is required (for the address it comes from)\nservers    another server is accepted if it has the certificate of a host of the configuration"}},
		"ensemble with TLS where hosts are not compared": {lines: ensemble + "sslQuorum=true\nssl.quorum.hostnameVerification=false", want: []string{
			"servers    b:2889: TLS, a certificate is required\nservers    b:3889: TLS, a certificate is required\nservers    another server is accepted if it has a certificate and says that it is one: give the servers an authority of their own\n" +
				"servers    a server that this one connects to may have the certificate of any host (ssl.quorum.hostnameVerification=false)"}},
		"ensemble on its way to TLS": {lines: ensemble + "sslQuorum=true\nportUnification=true\nquorumListenOnAllIPs=true\nssl.quorum.clientAuth=none", change: proofs(false), want: []string{
			"servers    :2889: in clear text, or TLS, no certificate is asked for; this server connects with TLS\n" +
				"servers    :3889: in clear text, or TLS, no certificate is asked for; this server connects with TLS\n" +
				"servers    another server is accepted if it says that it is one; SASL proves it for those that use it"}},
		"ensemble with SASL": {lines: ensemble, change: proofs(true), want: []string{
			"servers    b:2889: in clear text\nservers    b:3889: in clear text\nservers    another server is accepted if it proves with SASL to be one"}},
		"groups": {lines: "secureClientPort=2281\nauthProvider.x509=" + groups + "\nX509ZNodeGroupAclProvider.superUserId=CN=root\n" +
			"X509ZNodeGroupAclProvider.crossDomainAccessDomainName=ops\nX509AuthenticationProvider.superUser=CN=x", want: []string{
			"clients    :2181: in clear text\nclients    :2281: TLS, a certificate is required",
			"identities world, ip, digest, x509; x509 by the domains of /zookeeper/uri-domain-map", "super user x509 CN=root; x509 of the domain ops",
		}},
		"one domain": {lines: "secureClientPort=2281\nauthProvider.x509=" + groups + "\nX509ZNodeGroupAclProvider.dedicatedDomain=shop", want: []string{
			"clients    :2181: in clear text\nclients    :2281: TLS, a certificate is required",
			"identities world, ip, digest, x509; x509 by the domains of /zookeeper/uri-domain-map: a client whose certificate is not of the domain shop is disconnected",
		}},
		"one domain, not enforced": {lines: "secureClientPort=2281\nauthProvider.x509=" + groups + "\nX509ZNodeGroupAclProvider.dedicatedDomain=shop\n" +
			"X509ZNodeGroupAclProvider.enforceDedicatedDomain=false", want: []string{
			"clients    :2181: in clear text\nclients    :2281: TLS, a certificate is required",
			"identities world, ip, digest, x509; x509 by the domains of /zookeeper/uri-domain-map: a certificate that is not of the domain shop proves nothing",
		}},
		"operators in clear text": {lines: "admin.enableServer=true\n" + prometheus, want: []string{
			"admin      127.0.0.1:8080: in clear text for everybody who can reach it", "metrics    0.0.0.0:7000: in clear text for everybody who can reach it"}},
		"operators with tokens": {lines: "admin.enableServer=true\nadmin.portUnification=true\nadmin.snapshot.enabled=true\nconclave.adminTokenFile=/etc/tokens\n" + trust +
			prometheus + scraped + "metricsProvider.httpPort=7000\nconclave.metricsTokenFile=m", want: []string{
			"admin      127.0.0.1:8080: in clear text, or TLS, no certificate is asked for; each request must show a token of /etc/tokens, except health checks; all data, for clients with all permissions on /",
			"metrics    0.0.0.0:7000: in clear text; each request must show a token of m\nmetrics    0.0.0.0:7443: TLS, a certificate is required; each request must show a token of m"}},
		"operators on ports for both": {lines: "admin.enableServer=true\nadmin.portUnification=true\nadmin.needClientAuth=true\nadmin.serverAddress=::\n" + trust +
			prometheus + scraped + "metricsProvider.httpPort=7443\nmetricsProvider.ssl.need.client.auth=false", want: []string{
			"admin      [::]:8080: in clear text for everybody who can reach it, or TLS, a certificate is required",
			"metrics    0.0.0.0:7443: in clear text for everybody who can reach it, or TLS, a certificate is asked for, but clients without one get in"}},
		"operators over TLS": {lines: "admin.enableServer=true\nadmin.forceHttps=true\nadmin.portUnification=true\nssl.quorum.clientAuth=need\n" + prometheus + scraped, want: []string{
			"admin      127.0.0.1:8080: TLS, no certificate is asked for", "metrics    0.0.0.0:7443: TLS, a certificate is required"}},
		"operators who are certified": {lines: "admin.enableServer=true\nadmin.forceHttps=true\nadmin.needClientAuth=true\nssl.quorum.crl=true\n" + trust +
			prometheus + scraped + "metricsProvider.httpPort=7000\nmetricsProvider.ssl.need.client.auth=false\nmetricsProvider.ssl.want.client.auth=false", want: []string{
			"admin      127.0.0.1:8080: TLS, a certificate is required (not revoked)",
			"metrics    0.0.0.0:7000: in clear text for everybody who can reach it\nmetrics    0.0.0.0:7443: TLS, no certificate is asked for"}},
	} {
		entries, err := zoocfg.Parse("zoo.cfg", []byte("dataDir=/data\nclientPort=2181\n"+c.lines))
		if err != nil {
			t.Fatal(err)
		}
		mem := vfs.NewMem()
		if err := mem.MkdirAll("/data"); err != nil {
			t.Fatal(err)
		}
		if err := vfs.ReplaceFile(mem, "/data/myid", "/data/myid.tmp", []byte("2")); err != nil {
			t.Fatal(err)
		}
		config, err := zoocfg.Read(entries, mem)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		cfg := config.Server
		if c.change != nil {
			c.change(&cfg)
		}
		want := plainPosture
		for _, line := range c.want {
			begins := line[:strings.Index(line, " ")]
			lines := strings.SplitAfter(want, "\n")
			for i := range lines {
				if strings.HasPrefix(lines[i], begins+" ") {
					lines[i] = line + "\n"
				}
			}
			want = strings.Join(lines, "")
		}
		if got := posture(config, &cfg); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}
