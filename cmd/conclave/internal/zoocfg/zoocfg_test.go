package zoocfg

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/snap"
	"github.com/conclave-project/conclave/internal/vfs"
)

// read reads a file with dataDir, clientPort and the given lines.
func read(t *testing.T, lines ...string) (*Config, error) {
	t.Helper()
	entries, err := Parse("zoo.cfg", []byte("dataDir=/data\nclientPort=2181\n"+strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return Read(entries, disk(t, map[string]string{
		"/data/myid":   "2\n",
		"/two.dynamic": "server.1=a:1:2;3\nserver.2=b:1:2;2181\n",
		"/key.dynamic": "server.1=a:1:2\nclientPort=1\n",
	}))
}

// disk returns a memory disk with the given files.
func disk(t testing.TB, files map[string]string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	for name, text := range files {
		if err := mem.MkdirAll(filepath.Dir(name)); err != nil {
			t.Fatal(err)
		}
		if err := mem.SyncDir(filepath.Dir(filepath.Dir(name))); err != nil {
			t.Fatal(err)
		}
		if err := vfs.ReplaceFile(mem, name, name+".tmp", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

func TestEveryServedKeyReachesTheServer(t *testing.T) {
	c, err := read(t, "dataLogDir=/log", "clientPortAddress=::1", "tickTime=500", "minSessionTimeout=700",
		"maxSessionTimeout=9000", "maxClientCnxns=0", "maxCnxns=7", "jute.maxbuffer=0x200000",
		"nio.sessionlessCnxnTimeout=2000", "globalOutstandingLimit=50", "extendedTypesEnabled=TRUE",
		"enforceQuota=true", "4lw.commands.whitelist=ruok, stat", "znode.container.checkIntervalMs=10",
		"znode.container.maxPerMinute=11", "znode.container.maxNeverUsedIntervalMs=12", "preAllocSize=64",
		"snapCount=100", "snapSizeLimitInKb=-1", "txnLogSizeLimitInKb=2", "forceSync=no",
		"autopurge.snapRetainCount=5", "autopurge.purgeInterval=30m", "digest.enabled=false",
		"snapshot.trust.empty=true", "snapshot.compression.method=gz", "db.autocreate=false",
		"datadir.autocreate=false", "skipACL=yes", "DigestAuthenticationProvider.superDigest=super:eXJov8znpQ4dl1Mi6FnyKh1mSgw=",
		"DigestAuthenticationProvider.enabled=false", "reconfigEnabled=true")
	if err != nil {
		t.Fatal(err)
	}
	s := c.Server
	for name, ok := range map[string]bool{
		"places":   s.DataDir == "/data" && s.DataLogDir == "/log" && s.ClientAddr == "[::1]:2181",
		"times":    s.TickTime == 500*time.Millisecond && s.SessionMin == 700*time.Millisecond && s.SessionMax == 9*time.Second,
		"limits":   s.ConnsPerIPMax == 0 && s.ConnsMax == 7 && s.FrameBytesMax == 1<<21 && s.InFlightMax == 50,
		"hello":    s.HandshakeTime == 2*time.Second,
		"features": s.ExtendedTypes && s.EnforceQuota && s.ReconfigEnabled && slices.Equal(s.FourLetterWords, []string{"ruok", "stat"}),
		"reaper":   s.ReapInterval == 10*time.Millisecond && s.ReapPerMinute == 11 && s.ContainerUnused == 12*time.Millisecond,
		"log":      s.PreallocBytes == 64<<10 && s.LogBytesMax == 2<<10 && s.NoSync,
		"snapshot": s.SnapCount == 100 && s.SnapBytes == 0 && s.Compression == snap.Gzip && s.TrustEmpty && s.NoDigest,
		"purge":    s.PurgeRetain == 5 && s.PurgeInterval == 30*time.Minute,
		"create":   s.NoAutoCreate && s.NoMkdir,
		"auth":     s.Auth.SkipACL && s.Auth.NoDigest && s.Auth.SuperDigest == "super:eXJov8znpQ4dl1Mi6FnyKh1mSgw=",
	} {
		if !ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
	javas := []string{"jute.maxbuffer", "znode.container.checkIntervalMs", "znode.container.maxPerMinute", "znode.container.maxNeverUsedIntervalMs"}
	without := func(remark string) bool { return strings.Contains(remark, "superDigest: has no effect") }
	c.Remarks = slices.DeleteFunc(c.Remarks, without)
	for i, remark := range c.Remarks {
		if i >= len(javas) || !strings.HasSuffix(remark, javas[i]+": has an effect here, but not in Apache ZooKeeper, which takes it only as a Java property, with -D") {
			t.Error(remark)
		}
	}
	if len(c.Remarks) != len(javas) || len(c.Notes) != 1 { // reconfigEnabled, on a standalone server
		t.Errorf("%q %q", c.Remarks, c.Notes)
	}
}

func TestMistakesAreToldWithFileLineAndNearestKey(t *testing.T) {
	for line, want := range map[string]string{
		"clientport=2182":                          "zoo.cfg:3: clientport: unknown key; did you mean clientPort?",
		"autopurge.purgeInteval=1":                 "zoo.cfg:3: autopurge.purgeInteval: unknown key; did you mean autopurge.purgeInterval?",
		"snapConut=5":                              "zoo.cfg:3: snapConut: unknown key; did you mean snapCount?",
		"tickTime=2s":                              `zoo.cfg:3: tickTime: "2s" is not a whole number`,
		"tickTime=0":                               "zoo.cfg:3: tickTime: 0 is not from 1 to 2147483647",
		"clientPort=99999":                         "zoo.cfg:3: clientPort: 99999 is not from 0 to 65535",
		"reconfigEnabled=yes":                      `zoo.cfg:3: reconfigEnabled: "yes" is not true or false`,
		"forceSync=false":                          `zoo.cfg:3: forceSync: "false" is not no or yes`,
		"autopurge.purgeInterval=1w":               `zoo.cfg:3: autopurge.purgeInterval: "1w" is not a number of hours, or a number and one of ms s m h d`,
		"maxSessionTimeout=100":                    "zoo.cfg:3: maxSessionTimeout: the shortest session (6000 ms) is longer than the longest (100 ms)",
		"snapshot.compression.method=xz":           `zoo.cfg:3: snapshot.compression.method: "xz" is not gz or snappy`,
		"secureClientPort=2181":                    "zoo.cfg:3: secureClientPort: 2181 is clientPort, too: one port for both is client.portUnification=true with clientPort alone",
		"secureClientPortAddress=127.0.0.1":        "zoo.cfg: secureClientPort is not set though secureClientPortAddress is",
		"ssl.keyStor.location=/k":                  "zoo.cfg:3: ssl.keyStor.location: unknown key; did you mean ssl.keyStore.location?",
		"ssl.context.supplier.class=com.example.A": `zoo.cfg:3: ssl.context.supplier.class: "com.example.A" is refused: there are no Java classes here: name the files with keyStore.location and trustStore.location`,
		"authProvider.1=com.example.A":             `zoo.cfg:3: authProvider.1: "com.example.A" is refused: only the schemes world, ip, digest, x509 and sasl are built in: prove names by a certificate or by SASL, and leave this line out`,
		"authProvider.1=org.apache.zookeeper.server.auth.KeyAuthenticationProvider": `zoo.cfg:3: authProvider.1: "org.apache.zookeeper.server.auth.KeyAuthenticationProvider" is refused: only the schemes world, ip, digest, x509 and sasl are built in: prove names by a certificate or by SASL, and leave this line out`,
		"javax.net.ssl.trustStore=/cacerts":                                         `zoo.cfg:3: javax.net.ssl.trustStore: "/cacerts" is refused: ` + whyStores,
		"java.security.properties=/fips":                                            `zoo.cfg:3: java.security.properties: "/fips" is refused: ` + whyProviders,
		"org.bouncycastle.fips.approved_only=true":                                  `zoo.cfg:3: org.bouncycastle.fips.approved_only: "true" is refused: ` + whyProviders,
		"jdk.tls.server.protocols=TLSv1.3":                                          `zoo.cfg:3: jdk.tls.server.protocols: "TLSv1.3" is refused: what TLS may speak is set with enabledProtocols and ciphersuites, of ssl. and of ssl.quorum.`,
		"audit.impl.class=com.example.A":                                            `zoo.cfg:3: audit.impl.class: "com.example.A" is refused: there are no Java classes here, and this one's lines are written`,
		"requestThrottleLimit=9":                                                    `zoo.cfg:3: requestThrottleLimit: "9" is refused: ZooKeeper's documentation names it so, but ZooKeeper does not read that name: write request_throttle_max_requests`,
		"closeSessionTxn.enabled=false":                                             `zoo.cfg:3: closeSessionTxn.enabled: "false" is refused: files are written as ZooKeeper 3.9 writes them by default`,
		"clientPort=0":                                                              "zoo.cfg:3: clientPort: is not set: no client could connect",
		"standaloneEnabled=false":                                                   "zoo.cfg:3: standaloneEnabled: false asks for an ensemble, but there are no server lines",
		"server.x=a:1:2":                                                            `zoo.cfg:3: server.x: "x" is not the number of a server: not a number`,
		"server.1=a:1":                                                              `zoo.cfg:3: server.1: "a:1": want host:quorumPort:electionPort[:participant|observer]: 2 parts`,
		"server.1=a:1:2;2182":                                                       "zoo.cfg:3: server.1: client port 2182 is not clientPort 2181",
		"server.1=a:1:2:observer":                                                   "zoo.cfg:3: server.1: 1 servers and no participant among them: nobody could vote",
		"Server.1=a:1:2":                                                            "zoo.cfg:3: Server.1: unknown key; did you mean server.1?",
		"sever.1=a:1:2":                                                             "zoo.cfg:3: sever.1: unknown key; did you mean server.1?",
		"wieght.1=2":                                                                "zoo.cfg:3: wieght.1: unknown key; did you mean weight.1?",
		"dynamicConfigFile=none":                                                    "zoo.cfg:3: dynamicConfigFile: open none: file does not exist",
		"dynamicConfigFile=key.dynamic":                                             "key.dynamic:2: clientPort: only server., group. and weight. lines are allowed in a dynamic configuration file",
		"electionAlg=0":                                                             `zoo.cfg:3: electionAlg: "0" is not 3, the fast election: there is no other`,
		"peerType=leader":                                                           `zoo.cfg:3: peerType: "leader" is not observer or participant`,
		"server.1=a:1:2\nserver.2=a:1:3:observer":                                   "zoo.cfg:3: server.1: observers need an ensemble of at least two participants, or standaloneEnabled=false",
		"server.1=a:1:2\ndynamicConfigFile=two.dynamic":                             "zoo.cfg:3: server.1: is not allowed here when dynamicConfigFile is set",
	} {
		if _, err := read(t, line); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", line, err, want)
		}
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	_, err := Read(nil, nil)
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Error(err)
	}
	_, err = read(t, "tickTime=x", "snapcount=1")
	var problem *Problem
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !errors.As(err, &problem) || problem.Line != 3 {
		t.Error(err)
	}
}

func TestWhatApacheWouldStartWithStartsWithRemarks(t *testing.T) {
	for line, want := range map[string]string{
		"company.owner=me":                               "zoo.cfg:3: company.owner: unknown key, it has no effect",
		"zookeeper.snapCount=7":                          "zoo.cfg:3: zookeeper.snapCount: has no effect in a file, as in Apache ZooKeeper, which puts zookeeper. in front itself; write snapCount",
		"tickTime=1000\ntickTime=2000":                   "zoo.cfg:4: tickTime: stands twice, line 3 is not used",
		"server.1=a:1:2":                                 "zoo.cfg:3: server.1: one server is not an ensemble, so the line is ignored",
		"admin.serverPort=8081":                          "zoo.cfg:3: admin.serverPort: has no effect without admin.enableServer=true",
		"admin.serverPort=8081\nadmin.enableServer=true": "",
		"metricsProvider.className=a.b.C":                `zoo.cfg:3: metricsProvider.className: "a.b.C" has no effect: figures are served to Prometheus and by mntr alone`,
		"metricsProvider.httpPort=7000":                  "zoo.cfg:3: metricsProvider.httpPort: has no effect without metricsProvider.className=" + prometheusProvider,
		"metricsProvider.httpPort=7000\nmetricsProvider.className=" + prometheusProvider: "",
		"initLimit=10\nsyncLimit=5": "",
		"commitLogCount=0":          "zoo.cfg:3: commitLogCount: 0 counts as 500, as in Apache ZooKeeper",
		"commitLogCount=1":          "",
		"autopurge.snapRetainCount=2\nautopurge.purgeInterval=1":                   "zoo.cfg:3: autopurge.snapRetainCount: 2 counts as 3, as in Apache ZooKeeper",
		"netty.server.outstandingHandshake.limit=9":                                "zoo.cfg:3: netty.server.outstandingHandshake.limit: has no effect: secureClientPort is not set",
		"autopurge.snapRetainCount=3":                                              "zoo.cfg:3: autopurge.snapRetainCount: has no effect: autopurge.purgeInterval is not set",
		"autopurge.snapRetainCount=3\nautopurge.purgeInterval=1":                   "",
		"4lw.commands.whitelist=foo, stat,*":                                       `zoo.cfg:3: 4lw.commands.whitelist: "foo" is not a four-letter word of this server`,
		"preAllocSize=2097152":                                                     "zoo.cfg:3: preAllocSize: 2097152 KiB count as 262144: a start after a crash reads what was taken ahead",
		"preAllocSize=2147483647":                                                  "zoo.cfg:3: preAllocSize: 2147483647 KiB count as 262144: a start after a crash reads what was taken ahead",
		"preAllocSize=262144":                                                      "",
		"preAllocSize=-1":                                                          "",
		"ensembleAuthName=prod":                                                    "zoo.cfg:3: ensembleAuthName: has no effect: authProvider.ensemble=org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider is not set",
		"connection_throttle_tokens=9\nconnection_throttle_renew_session_weight=2": "zoo.cfg:4: connection_throttle_renew_session_weight: has no effect: connection_throttle_weight_enabled is not set",
		"connection_throttle_tokens=9\nconnection_throttle_drop_increase=0.1":      "zoo.cfg:4: connection_throttle_drop_increase: has no effect: connection_throttle_freeze_time is not set",
		"DigestAuthenticationProvider.digestAlg=SHA-256\nDigestAuthenticationProvider.enabled=false": "zoo.cfg:3: DigestAuthenticationProvider.digestAlg: has no effect: DigestAuthenticationProvider.enabled=false",
		"sslQuorum=true\noraclePath=/x":                                          "",
		"peerType=observer":                                                      "",
		"ssl.keyStore.location=/k":                                               "zoo.cfg:3: ssl.keyStore.location: has no effect: without secureClientPort or client.portUnification no port for clients speaks TLS",
		"secureClientPort=2281\nssl.clientAuth=none":                             "",
		"secureClientPort=2281\nssl.allowReverseDnsLookup=true":                  "zoo.cfg:4: ssl.allowReverseDnsLookup: has no effect beside fips-mode, which is on unless fips-mode=false is set: as in Apache ZooKeeper no names of addresses are looked up then",
		"secureClientPort=2281\nssl.allowReverseDnsLookup=true\nfips-mode=false": "",
		"server.1=a:1:2:participant;2181":                                        "",
		"dataDir=data":                                                           "zoo.cfg:3: dataDir: stands twice, line 1 is not used\nzoo.cfg:3: dataDir: data is relative to the working directory",
		"commitProcessor.numWorkerThreads=16":                                    "",
		"jute.maxbuffer=2000000":                                                 "zoo.cfg:3: jute.maxbuffer: has an effect here, but not in Apache ZooKeeper, which takes it only as a Java property, with -D",
	} {
		c, err := read(t, line)
		if err != nil || strings.Join(c.Remarks, "\n") != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", line, c.Remarks, err, want)
		}
	}
}

// An operator who asks for protection, and turns it off by another key, gets a remark.
func TestProtectionThatIsOffIsRemarked(t *testing.T) {
	const tls, jaas = "secureClientPort=2281\n", "java.security.auth.login.config=/jaas.conf\n"
	for lines, want := range map[string]string{
		tls + "ssl.clientHostnameVerification=true":                                                                               "",
		tls + "ssl.clientHostnameVerification=true\nssl.hostnameVerification=false":                                               "ssl.clientHostnameVerification: has no effect: ssl.hostnameVerification=false turns it off, as in Apache ZooKeeper",
		tls + "ssl.clientHostnameVerification=false\nssl.hostnameVerification=false":                                              "",
		tls + "ssl.clientHostnameVerification=true\nssl.clientAuth=none":                                                          "ssl.clientHostnameVerification: has no effect: nobody is asked for a certificate, ssl.clientAuth is none",
		tls + "ssl.crl=true\nssl.clientAuth=none":                                                                                 "ssl.crl: has no effect: nobody is asked for a certificate, ssl.clientAuth is none",
		tls + "ssl.ocsp=true\nssl.clientAuth=none":                                                                                "ssl.ocsp: has no effect: nobody is asked for a certificate, ssl.clientAuth is none",
		tls + "ssl.ocsp=true\nssl.clientAuth=want":                                                                                "",
		"DigestAuthenticationProvider.superDigest=super:eXJov8znpQ4dl1Mi6FnyKh1mSgw=":                                             "",
		"DigestAuthenticationProvider.superDigest=super:eXJov8znpQ4dl1Mi6FnyKh1mSgw=\nDigestAuthenticationProvider.enabled=false": "DigestAuthenticationProvider.superDigest: has no effect: DigestAuthenticationProvider.enabled=false",
		"X509AuthenticationProvider.superUser=CN=a":                                                                               "X509AuthenticationProvider.superUser: has no effect: no port for clients speaks TLS",
		tls + "X509AuthenticationProvider.superUser=CN=a":                                                                         "",
		tls + "X509AuthenticationProvider.superUser=CN=a\nssl.clientAuth=none":                                                    "X509AuthenticationProvider.superUser: has no effect: nobody is asked for a certificate, ssl.clientAuth is none",
		"superUser.1=bob":                                                     "superUser.1: has no effect: no client can prove a name by SASL without a JAAS file, -D java.security.auth.login.config=FILE",
		"letAnySaslUserDoX=any":                                               "letAnySaslUserDoX: has no effect: no client can prove a name by SASL without a JAAS file, -D java.security.auth.login.config=FILE",
		"SASLAuthenticationProvider.superPassword=x":                          "SASLAuthenticationProvider.superPassword: has no effect: no client can prove a name by SASL without a JAAS file, -D java.security.auth.login.config=FILE",
		"allowSaslFailedClients=true":                                         "allowSaslFailedClients: has no effect: no client can prove a name by SASL without a JAAS file, -D java.security.auth.login.config=FILE",
		"allowSaslFailedClients=false":                                        "",
		"requireKerberosConfig=true":                                          "requireKerberosConfig: has no effect beyond the check at the start: no client can prove a name by SASL without a JAAS file, -D java.security.auth.login.config=FILE",
		jaas + "requireKerberosConfig=true":                                   "",
		jaas + "superUser=bob\nSASLAuthenticationProvider.superPassword=x":    "",
		"ssl.clientHostnameVerification=true\nssl.hostnameVerification=false": "",
	} {
		c, err := read(t, lines)
		var told []string
		for _, remark := range c.Remarks {
			if _, text, _ := strings.Cut(remark, ": "); strings.Contains(text, "has no effect") && !strings.Contains(text, "speaks TLS") || strings.HasPrefix(text, "X509") {
				told = append(told, text)
			}
		}
		if err != nil || strings.Join(told, "\n") != want {
			t.Errorf("%s:\n got %q, %v\nwant %q", lines, told, err, want)
		}
	}
}

func TestWhatHasNoMeaningHereIsNoted(t *testing.T) {
	c, err := read(t, "request_throttler.shutdownTimeout=1", "leader.nodelay=false")
	want := []string{
		"zoo.cfg:3: request_throttler.shutdownTimeout: has no meaning here: there are no pools of threads to size",
		"zoo.cfg:4: leader.nodelay: has no meaning here: what is written is sent at once",
	}
	if err != nil || !slices.Equal(c.Notes, want) || len(c.Remarks) > 0 {
		t.Errorf("%q %q %v", c.Notes, c.Remarks, err)
	}
}

// A setting that only an ensemble can use is accepted in one, and noted on a standalone
// server.
func TestWhatIsForAnEnsembleIsNotedAlone(t *testing.T) {
	lines := []string{
		"leaderServes=no", "localSessionsEnabled=true", "localSessionsUpgradingEnabled=true", "reconfigEnabled=true",
		"conclave.reconfigSecurePorts=true", "multiAddress.enabled=true", "quorumListenOnAllIPs=true", "peerType=observer", "oraclePath=/o",
		"conclave.ownLine=b:1:2", "observerMasterPort=2191", "cnxTimeout=4000", "conclave.silenceMs=900", "conclave.electionFinalizeMs=1",
		"sslQuorum=true", "portUnification=true", "conclave.sslQuorumMembersOnly=true", "quorum.auth.enableSasl=true",
		"quorum.auth.serverRequireSasl=true", "quorum.auth.learnerRequireSasl=true",
	}
	c, err := read(t, lines...)
	if err != nil || len(c.Remarks) > 0 || len(c.Notes) != len(lines) {
		t.Errorf("%q %q %v", c.Notes, c.Remarks, err)
	}
	for i, line := range lines {
		key, _, _ := strings.Cut(line, "=")
		want := fmt.Sprintf("zoo.cfg:%d: %s: has no meaning here: it is for an ensemble, and this server is alone", i+3, key)
		if !slices.Contains(c.Notes, want) {
			t.Errorf("no note %q", want)
		}
	}
	same := []string{"leaderServes=yes", "localSessionsEnabled=false", "reconfigEnabled=false", "peerType=participant", "cnxTimeout=5000", "conclave.silenceMs=0",
		"sslQuorum=false", "conclave.sslQuorumMembersOnly=false", "quorum.auth.enableSasl=false", "observerMasterPort=0", "initLimit=10", "syncLimit=5"}
	if c, err = read(t, same...); err != nil || len(c.Notes) > 0 {
		t.Errorf("%q %v", c.Notes, err)
	}
}

// A hash that no password has would leave the ensemble without the super user that was
// configured.
func TestSuperDigestIsAHash(t *testing.T) {
	const key = "DigestAuthenticationProvider.superDigest"
	const sha256 = "super:1u81lalRcGTrPhAU2peNL/tIAt6kFmJ+nR4xnqch9V8="
	for lines, want := range map[string]string{
		key + "=super:eXJov8znpQ4dl1Mi6FnyKh1mSgw=": "",
		key + "=super:secret":                       key + ": has no effect: what is behind the colon is no hash; it is the Base64 of the SHA1 of user:password, which `printf %s super:PASSWORD | openssl dgst -sha1 -binary | base64` prints",
		key + "=bob:c2VjcmV0":                       key + ": has no effect: what is behind the colon is no hash; it is the Base64 of the SHA1 of user:password, which `printf %s bob:PASSWORD | openssl dgst -sha1 -binary | base64` prints",
		key + "=" + sha256:                          key + ": has no effect: what is behind the colon is no hash; it is the Base64 of the SHA1 of user:password, which `printf %s super:PASSWORD | openssl dgst -sha1 -binary | base64` prints",
		key + "=" + sha256 + "\nDigestAuthenticationProvider.digestAlg=SHA-256":                     "",
		key + "=super:eXJov8znpQ4dl1Mi6FnyKh1mSgw=\nDigestAuthenticationProvider.digestAlg=SHA-256": key + ": has no effect: what is behind the colon is no hash; it is the Base64 of the SHA-256 of user:password",
		key + "=super": key + ": want user:hash, where hash is the Base64 of the SHA1 of user:password",
	} {
		c, err := read(t, lines)
		got := told(err)
		if err == nil {
			got = strings.Join(c.Remarks, "\n")
		}
		if got != want && got != "zoo.cfg:3: "+want {
			t.Errorf("%s:\n got %s\nwant %s", lines, got, want)
		}
	}
}

// Apache reads some keys with Integer.parseInt, for which 02000 is decimal, and others as
// Java properties, for which it is octal.
func TestLeadingZerosAreReadAsApacheReadsThem(t *testing.T) {
	c, err := read(t, "tickTime=02000", "maxClientCnxns=0100", "minSessionTimeout=-01", "maxSessionTimeout=+090000", "autopurge.snapRetainCount=08", "snapCount=0100")
	if err != nil {
		t.Fatal(err)
	}
	s := c.Server
	if s.TickTime != 2*time.Second || s.ConnsPerIPMax != 100 || s.SessionMin != 0 || s.SessionMax != 90*time.Second || s.PurgeRetain != 8 || s.SnapCount != 64 {
		t.Errorf("tick %v, connections %d, sessions from %v to %v, purge %d, snapshots %d", s.TickTime, s.ConnsPerIPMax, s.SessionMin, s.SessionMax, s.PurgeRetain, s.SnapCount)
	}
}

func TestCommandLineOverridesTheFile(t *testing.T) {
	file, err := Parse("zoo.cfg", []byte("dataDir=/data\nclientPort=2181\nsnapCount=5\n"))
	if err != nil {
		t.Fatal(err)
	}
	property, err := Property("zookeeper.snapCount = 9")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(append(file, property), nil)
	if err != nil || c.Server.SnapCount != 9 || len(c.Remarks) > 0 {
		t.Error(c, err)
	}
}

func TestShortFormOfTheCommandLine(t *testing.T) {
	entries, err := Arguments([]string{"2181", "/data", "500", "9"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(entries, nil)
	if err != nil || c.Server.ClientAddr != ":2181" || c.Server.TickTime != 500*time.Millisecond || c.Server.ConnsPerIPMax != 9 {
		t.Error(c, err)
	}
	if _, err := Arguments([]string{"2181"}); err == nil {
		t.Error("a port alone was taken")
	}
}

func TestEnforcedSchemesAreThoseOfThisServer(t *testing.T) {
	c, err := read(t, "enforce.auth.enabled=true\nenforce.auth.schemes=digest, x509\nclient.portUnification=true\nDigestAuthenticationProvider.digestAlg=SHA-256")
	if err != nil || !slices.Equal(c.Server.Auth.Enforce, []string{"digest", "x509"}) || c.Server.Auth.Hash != "SHA-256" {
		t.Errorf("%+v, %v", c.Server.Auth, err)
	}
	for lines, want := range map[string]string{
		"enforce.auth.enabled=true":                            "enforce.auth.schemes is not set: name the schemes of which a client must prove one, such as digest,x509",
		"enforce.auth.enabled=true\nenforce.auth.schemes=x509": `"x509" is not a scheme of this server`,
		"enforce.auth.enabled=true\nenforce.auth.schemes=digest\nDigestAuthenticationProvider.enabled=false": `"digest" is not a scheme of this server`,
		"DigestAuthenticationProvider.digestAlg=CRC32":                                                       `"CRC32" is not known`,
	} {
		if _, err := read(t, lines); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", lines, err, want)
		}
	}
	c, err = read(t, "enforce.auth.schemes=digest")
	if err != nil || len(c.Remarks) != 1 || !strings.Contains(c.Remarks[0], "has no effect without enforce.auth.enabled") || c.Server.Auth.Enforce != nil {
		t.Errorf("%q, %v", c.Remarks, err)
	}
}

// The older key beside the newer ones, as after a migration: "addauth digest anything" must
// not be enough.
func TestSessionsThatRequireSASLAreNotOpenedByOtherSchemes(t *testing.T) {
	c, err := read(t, "sessionRequireClientSASLAuth=true\njava.security.auth.login.config=/etc/jaas.conf\n"+
		"enforce.auth.enabled=true\nenforce.auth.schemes=digest")
	if err != nil || !slices.Equal(c.Server.Auth.Enforce, []string{"sasl"}) ||
		!slices.ContainsFunc(c.Remarks, func(r string) bool { return strings.Contains(r, "has no effect beside sessionRequireClientSASLAuth") }) {
		t.Errorf("%+v, remarks %q, %v", c.Server.Auth.Enforce, c.Remarks, err)
	}
}

// In FIPS mode, which is on by default, Apache does not compare names of addresses.
func TestNamesOfAddressesAreForServersWithoutFIPSMode(t *testing.T) {
	const tls = "secureClientPort=2281\nssl.allowReverseDnsLookup=true\nssl.quorum.allowReverseDnsLookup=true\n"
	for lines, want := range map[string]bool{tls: false, tls + "fips-mode=true": false, tls + "fips-mode=false": true, "fips-mode=false": false} {
		c, err := read(t, lines)
		if err != nil {
			t.Fatal(err)
		}
		if c.ClientTLS.Settings.ReverseDNS != want || c.PeerTLS.Settings.ReverseDNS != want {
			t.Errorf("%q: for clients %t, between servers %t", lines, c.ClientTLS.Settings.ReverseDNS, c.PeerTLS.Settings.ReverseDNS)
		}
	}
}

// A reconfig may give a server of an ensemble its first TLS port, so its files are read at
// the start.
func TestFilesOfTLSAreReadForAPortToCome(t *testing.T) {
	const two, store = "server.1=a:1:2;2181\nserver.2=b:1:2;2181\ninitLimit=5\nsyncLimit=5\n", "ssl.keyStore.location=/k.pem\n"
	for lines, want := range map[string]bool{
		two + store + "conclave.reconfigSecurePorts=true": true, two + store: false, two + "conclave.reconfigSecurePorts=true": false,
		store + "conclave.reconfigSecurePorts=true": false,
	} {
		c, err := read(t, lines)
		if c.ClientTLS.Serves != want || c.Server.Auth.X509 != want {
			t.Errorf("%q: TLS %t, scheme x509 %t (%v)", lines, c.ClientTLS.Serves, c.Server.Auth.X509, err)
		}
	}
}

// TestRightsThatAreTakenAwayAreGone: if a key is given twice, the last value counts: in a
// file, over the environment, and if it is empty.
func TestRightsThatAreTakenAwayAreGone(t *testing.T) {
	for lines, want := range map[string]string{
		"superUser=alice\nsuperUser=bob":                    "bob",
		"superUser.1=alice\nsuperUser.1=bob":                "bob",
		"superUser=alice\nsuperUser=":                       "",
		"superUser=alice\nsuperUser.1=bob\nsuperUser.2=eve": "alice bob eve",
	} {
		c, err := read(t, lines)
		if got := strings.Join(c.Server.Auth.Principals.Supers, " "); err != nil || got != want {
			t.Errorf("%q: %q, %v", lines, got, err)
		}
	}
	environment := Environment(func(name string) string {
		return map[string]string{"SERVER_JVMFLAGS": "-Dzookeeper.superUser=alice"}[name]
	})
	entries, err := Parse("zoo.cfg", []byte("dataDir=/data\nclientPort=2181\nsuperUser=bob"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(append(environment, entries...), disk(t, nil))
	if got := c.Server.Auth.Principals.Supers; err != nil || !slices.Equal(got, []string{"bob"}) {
		t.Errorf("the file over the environment: %q, %v", got, err)
	}
	const class = "org.apache.zookeeper.server.auth."
	c, err = read(t, "authProvider.1="+class+"EnsembleAuthenticationProvider", "authProvider.1="+class+"DigestAuthenticationProvider")
	if err != nil || c.Server.Auth.Ensemble {
		t.Errorf("a provider that was exchanged is still there: %v", err)
	}
	c, err = read(t, "authProvider.1="+class+"SASLAuthenticationProvider", "authProvider.1="+class+"DigestAuthenticationProvider")
	if err != nil || c.Server.Auth.SASL {
		t.Errorf("that of SASL, too: %v", err)
	}
}
