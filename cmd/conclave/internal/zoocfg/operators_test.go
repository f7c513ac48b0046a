package zoocfg

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
)

const (
	withMetrics = "metricsProvider.className=" + prometheusProvider + "\n"
	withAdmin   = "admin.enableServer=true\n"
)

// TestPortsOfMetrics: which ports are open, and which certificates are required.
func TestPortsOfMetrics(t *testing.T) {
	const tls, trust = "metricsProvider.httpsPort=7443\n", "metricsProvider.ssl.trustStore.location=/t.pem\n"
	for lines, want := range map[string]struct {
		plain, tls int
		auth       string
	}{
		"":                             {7000, NoPort, ""},
		"metricsProvider.httpsPort=-1": {7000, NoPort, ""},
		tls + trust:                    {NoPort, 7443, "need"},
		tls + trust + "metricsProvider.httpPort=7001":                                                          {7001, 7443, "need"},
		tls + trust + "metricsProvider.httpPort=07443":                                                         {7443, 7443, "need"},
		tls + trust + "metricsProvider.ssl.want.client.auth=false":                                             {NoPort, 7443, "need"},
		tls + trust + "metricsProvider.ssl.need.client.auth=false":                                             {NoPort, 7443, "want"},
		tls + "metricsProvider.ssl.need.client.auth=false":                                                     {NoPort, 7443, "none"},
		"metricsProvider.httpPort=-1\nmetricsProvider.httpsPort=0\n" + trust:                                   {NoPort, 0, "need"},
		tls + trust + "metricsProvider.ssl.need.client.auth=false\nmetricsProvider.ssl.want.client.auth=false": {NoPort, 7443, "none"},
	} {
		c, err := read(t, withMetrics+lines)
		if err != nil || len(c.Remarks) > 0 {
			t.Errorf("%s: %q, %v", lines, c.Remarks, err)
			continue
		}
		m := c.Metrics
		if m.Port != want.plain || m.TLSPort != want.tls || m.TLS.ClientAuth != want.auth || m.BothOnOne() != (want.plain == 7443) || !m.TLS.Reload {
			t.Errorf("%s: %+v", lines, m)
		}
	}
	c, err := read(t, withMetrics+tls+trust+"metricsProvider.ssl.keyStore.location=/k.p12\nmetricsProvider.ssl.keyStore.password=p\nmetricsProvider.ssl.keyStore.passwordPath=/p\n"+
		"metricsProvider.ssl.keyStore.type=PKCS12\nmetricsProvider.ssl.trustStore.password=q\nmetricsProvider.ssl.trustStore.passwordPath=/q\nmetricsProvider.ssl.trustStore.type=PEM\n"+
		"metricsProvider.ssl.ciphersuites=A,B\nmetricsProvider.ssl.enabledProtocols=TLSv1.3")
	want := secure.Settings{
		Protocols: "TLSv1.3", Ciphers: "A,B", ClientAuth: "need", Reload: true,
		Key:   secure.Store{Location: "/k.p12", Type: "PKCS12", Password: "p", PasswordPath: "/p"},
		Trust: secure.Store{Location: "/t.pem", Type: "PEM", Password: "q", PasswordPath: "/q"},
	}
	if err != nil || c.Metrics.TLS != want {
		t.Errorf("%+v, %v", c.Metrics.TLS, err)
	}
}

// TestTLSOfTheAdminPort: it uses the stores for servers, and a separate setting for client
// certificates.
func TestTLSOfTheAdminPort(t *testing.T) {
	const stores = "ssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\n"
	key, trust := secure.Store{Location: "/k.pem"}, secure.Store{Location: "/t.pem"}
	for lines, want := range map[string]TLS{
		"admin.portUnification=false\nadmin.forceHttps=false\nadmin.needClientAuth=false": {Settings: secure.Settings{ClientAuth: "none"}},
		stores + "admin.portUnification=true":                                             {Serves: true, PlainToo: true, Settings: secure.Settings{Key: key, Trust: trust, ClientAuth: "none"}},
		stores + "admin.forceHttps=true":                                                  {Serves: true, Settings: secure.Settings{Key: key, Trust: trust, ClientAuth: "none"}},
		stores + "admin.forceHttps=true\nadmin.needClientAuth=true\nsslQuorumReloadCertFiles=true\nssl.quorum.crl=true\nssl.quorum.ocsp=true": {Serves: true,
			Settings: secure.Settings{Key: key, Trust: trust, ClientAuth: "need", Reload: true, CRL: true, OCSP: true}},
		stores + "admin.portUnification=true\nadmin.needClientAuth=true": {Serves: true, PlainToo: true, Settings: secure.Settings{Key: key, Trust: trust, ClientAuth: "need"}},
	} {
		c, err := read(t, withAdmin+lines)
		if err != nil || len(c.Remarks) > 0 || c.Admin.TLS != want {
			t.Errorf("%s: %+v, %q, %v", lines, c.Admin.TLS, c.Remarks, err)
		}
	}
}

// TestOperatorPortsAreNotLessProtectedThanAskedFor: settings without effect are remarked
// on, and a configuration that would let in more clients than intended is refused.
func TestOperatorPortsAreNotLessProtectedThanAskedFor(t *testing.T) {
	for lines, want := range map[string]string{
		"admin.forceHttps=true":          "zoo.cfg:3: admin.forceHttps: has no effect without admin.enableServer=true",
		"admin.needClientAuth=true":      "zoo.cfg:3: admin.needClientAuth: has no effect without admin.enableServer=true",
		"metricsProvider.httpsPort=7443": "zoo.cfg:3: metricsProvider.httpsPort: has no effect without metricsProvider.className=" + prometheusProvider,
		withAdmin + "admin.forceHttps=true\nadmin.portUnification=true": "zoo.cfg:5: admin.portUnification: has no effect beside admin.forceHttps=true, " +
			"as in Apache ZooKeeper: the port speaks only TLS",
		withAdmin + "admin.forceHttps=true\nssl.quorum.clientAuth=want\nssl.quorum.keyStore.location=/k.pem\nssl.quorum.crl=true": "" +
			"zoo.cfg:5: ssl.quorum.clientAuth: has no effect: without sslQuorum or portUnification, and an ensemble, no port for servers speaks TLS\n" +
			"zoo.cfg:7: ssl.quorum.crl: has no effect: without sslQuorum or portUnification, and an ensemble, no port for servers speaks TLS",
		withMetrics + "metricsProvider.ssl.need.client.auth=true":           "zoo.cfg:4: metricsProvider.ssl.need.client.auth: has no effect without metricsProvider.httpsPort",
		withMetrics + "metricsProvider.ssl.keyStore.location=/k.pem":        "zoo.cfg:4: metricsProvider.ssl.keyStore.location: has no effect without metricsProvider.httpsPort",
		withAdmin + "admin.needClientAuth=true":                             "zoo.cfg:4: admin.needClientAuth: is refused: nobody would be asked for a certificate without admin.forceHttps=true, or admin.portUnification=true, which lets in plain HTTP, too",
		withAdmin + "admin.needClientAuth=true\nadmin.portUnification=true": "zoo.cfg: ssl.quorum.trustStore.location is not set: name the file with the authorities of certificates for the admin port, or set admin.needClientAuth=false",
		withMetrics + "metricsProvider.httpsPort=7443":                      "zoo.cfg: metricsProvider.ssl.trustStore.location is not set: name the file with the authorities of scrapers' certificates, or set metricsProvider.ssl.need.client.auth=false",
		withMetrics + "metricsProvider.httpsPort=7443\nmetricsProvider.ssl.need.client.auth=false\nmetricsProvider.ssl.want.client.auth=true": "" +
			"zoo.cfg:6: metricsProvider.ssl.want.client.auth: asks for scrapers' certificates, but metricsProvider.ssl.trustStore.location names no authorities",
		withMetrics + "metricsProvider.httpPort=-1":     "zoo.cfg: metricsProvider.httpsPort is not set, and metricsProvider.httpPort is -1: name one of the two ports, or both",
		withMetrics + "metricsProvider.ssl.crl=true":    `zoo.cfg:4: metricsProvider.ssl.crl: "true" is refused: the port for metrics has no such setting`,
		withMetrics + "metricsProvider.httpsPort=70000": "zoo.cfg:4: metricsProvider.httpsPort: 70000 is not from -1 to 65535",
	} {
		c, err := read(t, lines)
		got := strings.Join(c.Remarks, "\n")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", lines, got, want)
		}
	}
}

func TestTracesGoToAURL(t *testing.T) {
	c, err := read(t, "conclave.traceEndpoint=http://a:4318\nconclave.traceRatio=0.5")
	if err != nil || len(c.Remarks) > 0 || c.TraceEndpoint != "http://a:4318/v1/traces" || c.Server.Trace.Ratio != 0.5 {
		t.Errorf("%+v, %v", c.Server.Trace, err)
	}
	if c, err = read(t, "conclave.traceRatio=0.5"); err != nil || len(c.Remarks) != 1 || !strings.Contains(c.Remarks[0], "conclave.traceEndpoint is not set") {
		t.Error(c.Remarks, err)
	}
	for _, lines := range []string{"conclave.traceEndpoint=a:4318", "conclave.traceEndpoint=http://a\nconclave.traceRatio=2"} {
		if _, err := read(t, lines); err == nil {
			t.Error(lines, "is taken")
		}
	}
}
