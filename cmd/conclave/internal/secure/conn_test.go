package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/certtest"
)

// echo serves a port of the source: it answers with the name of the client, followed by
// what the client sends.
func echo(t *testing.T, s *Source, plainToo bool) string {
	t.Helper()
	return serve(t, func(l net.Listener) net.Listener { return s.Listener(l, plainToo) })
}

func serve(t *testing.T, secured func(net.Listener) net.Listener) string {
	t.Helper()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := secured(bare)
	var serving sync.WaitGroup
	t.Cleanup(func() { l.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				name, err := c.(*Conn).Prove()
				if err != nil {
					return
				}
				if _, err := io.WriteString(c, name+"\n"); err == nil {
					_, _ = io.Copy(c, c)
				}
				_ = c.(*Conn).CloseWrite()
			})
		}
	})
	return bare.Addr().String()
}

// says sends a line and returns the answer, which begins with the name.
func says(c net.Conn, line string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	var got []byte
	b := make([]byte, 1)
	for strings.Count(string(got), "\n") < 2 {
		if _, err := io.ReadFull(c, b); err != nil {
			return string(got), err
		}
		got = append(got, b[0])
	}
	return string(got), nil
}

func open(t *testing.T, s Settings) *Source {
	t.Helper()
	source, err := Open("ssl.", s, true, slog.Default())
	must(t, err)
	return source
}

// client returns the TLS configuration of a Go client.
func client(ca *certtest.Authority, who *certtest.Identity) *tls.Config {
	c := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
	if who != nil {
		certificate := who.TLS()
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
	return c
}

func TestWhoMayConnect(t *testing.T) {
	ca, strangers := certtest.New("ca"), certtest.New("strangers")
	server, member, stranger := ca.Issue("server", "localhost"), ca.Issue("member", "127.0.0.1"), strangers.Issue("stranger", "127.0.0.1")
	elsewhere := ca.Issue("elsewhere", "192.0.2.1")
	const refused = "refused"
	for _, c := range []struct {
		name   string
		change func(*Settings)
		dial   *tls.Config // nil: plain
		want   string
	}{
		{"a member", nil, client(ca, member), "CN=member,O=Conclave"},
		{"nobody", nil, client(ca, nil), refused},
		{"a stranger", nil, client(ca, stranger), refused},
		{"plain", nil, nil, refused},
		{"nobody where a certificate is wanted", func(s *Settings) { s.ClientAuth = "want" }, client(ca, nil), ""},
		{"a member there", func(s *Settings) { s.ClientAuth = "want" }, client(ca, member), "CN=member,O=Conclave"},
		{"a stranger there", func(s *Settings) { s.ClientAuth = "want" }, client(ca, stranger), refused},
		{"anybody where none is asked for", func(s *Settings) { s.ClientAuth = "none" }, client(ca, stranger), ""},
		{"from its host", func(s *Settings) { s.ClientHostCheck = true }, client(ca, member), "CN=member,O=Conclave"},
		{"from another host", func(s *Settings) { s.ClientHostCheck = true }, client(ca, elsewhere), refused},
		{"from another host, unchecked", func(s *Settings) { s.ClientHostCheck, s.NoHostCheck = true, true }, client(ca, elsewhere), "CN=elsewhere,O=Conclave"},
		{"1.2 alone", func(s *Settings) { s.Protocols = "TLSv1.2" }, &tls.Config{RootCAs: client(ca, nil).RootCAs, ServerName: "localhost",
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{member.TLS()}}, refused},
		{"1.3 alone", func(s *Settings) { s.Protocols = "TLSv1.3" }, &tls.Config{RootCAs: client(ca, nil).RootCAs, ServerName: "localhost",
			MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{member.TLS()}}, refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := settings(t, t.TempDir(), server, ca)
			if c.change != nil {
				c.change(&s)
			}
			bare, err := net.Dial("tcp", echo(t, open(t, s), false))
			must(t, err)
			defer bare.Close()
			conn := bare
			if c.dial != nil {
				conn = tls.Client(bare, c.dial)
			}
			got, err := says(conn, "hello")
			if c.want == refused {
				if err == nil {
					t.Errorf("answered with %q", got)
				}
				return
			}
			if err != nil || got != c.want+"\nhello\n" {
				t.Errorf("answered with %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// An application may have a certificate of the same authority, for its own address. That
// does not make it a server.
func TestServersAreThoseOfTheConfiguration(t *testing.T) {
	ca := certtest.New("ca")
	for _, c := range []struct {
		name   string
		who    *certtest.Identity
		hosts  []string
		change func(*Settings)
		ok     bool
	}{
		{"of an address", ca.Issue("zk", "127.0.0.1"), []string{"192.0.2.1", "127.0.0.1"}, nil, true},
		{"of a name", ca.Issue("zk", "127.0.0.1", "zk2.invalid"), []string{"zk1.invalid", "zk2.invalid"}, nil, true},
		{"of a name that has its address", ca.Issue("zk", "127.0.0.1"), []string{"192.0.2.1", "localhost"}, nil, true},
		{"an application", ca.Issue("app", "127.0.0.1", "app.invalid"), []string{"192.0.2.1", "zk2.invalid"}, nil, false},
		{"an application, and there are no servers", ca.Issue("app", "127.0.0.1"), nil, nil, false},
		{"a server at another address", ca.Issue("zk", "192.0.2.1"), []string{"192.0.2.1"}, nil, false},
		{"a server at an address that is not compared", ca.Issue("zk", "zk2.invalid"), []string{"zk2.invalid"},
			func(s *Settings) { s.ClientHostCheck = false }, true},
		{"an application there", ca.Issue("app", "app.invalid"), []string{"zk2.invalid"},
			func(s *Settings) { s.ClientHostCheck = false }, false},
		{"one that has the address of a host there", ca.Issue("app", "app.invalid"), []string{"localhost"},
			func(s *Settings) { s.ClientHostCheck = false }, false},
		{"an application, and hosts are not compared", ca.Issue("app", "app.invalid"), []string{"zk2.invalid"},
			func(s *Settings) { s.NoHostCheck = true }, true},
	} {
		s := settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)
		s.ClientHostCheck = true
		if c.change != nil {
			c.change(&s)
		}
		source := open(t, s)
		addr := serve(t, func(l net.Listener) net.Listener {
			return source.PeerListener(l, false, func() []string { return c.hosts })
		})
		conn, err := tls.Dial("tcp", addr, client(ca, c.who))
		if err == nil { // in TLS 1.3 a client learns only later that it was refused
			defer conn.Close()
			_, err = says(conn, "hello")
		}
		if (err == nil) != c.ok {
			t.Errorf("%s is taken for one of %v: %v", c.name, c.hosts, err)
		}
		port := func(l net.Listener) net.Listener { return source.Listener(l, false) }
		if !source.settings.ClientHostCheck {
			port = func(l net.Listener) net.Listener {
				return source.PeerListener(l, false, func() []string { return append([]string{"app.invalid"}, c.hosts...) })
			}
		}
		if err := isOf(t, port, client(ca, c.who), c.hosts); (err == nil) != c.ok {
			t.Errorf("%s acts as one of %v: %v", c.name, c.hosts, err)
		}
	}
}

// isOf dials a port that accepts it, and reports whether the dialing peer may be a server
// with the given hosts.
func isOf(t *testing.T, port func(net.Listener) net.Listener, dial *tls.Config, hosts []string) error {
	t.Helper()
	bare, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := port(bare)
	defer l.Close()
	answered := make(chan error, 1)
	go func() {
		socket, err := l.Accept()
		if err == nil {
			defer socket.Close()
			err = socket.(*Conn).IsOf(hosts)
		}
		answered <- err
	}()
	if conn, err := tls.Dial("tcp", bare.Addr().String(), dial); err == nil {
		defer conn.Close()
	}
	return <-answered
}

func TestPortForBoth(t *testing.T) {
	ca := certtest.New("ca")
	addr := echo(t, open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)), true)
	for _, c := range []struct {
		dial *tls.Config
		want string
	}{{nil, "\nhello\n"}, {client(ca, ca.Issue("member")), "CN=member,O=Conclave\nhello\n"}} {
		bare, err := net.Dial("tcp", addr)
		must(t, err)
		defer bare.Close()
		conn := bare
		if c.dial != nil {
			conn = tls.Client(bare, c.dial)
		}
		if got, err := says(conn, "hello"); got != c.want {
			t.Errorf("answered with %q (%v), want %q", got, err, c.want)
		}
	}
}

func TestWhomIsDialed(t *testing.T) {
	ca, strangers := certtest.New("ca"), certtest.New("strangers")
	me := ca.Issue("me", "127.0.0.1")
	for _, c := range []struct {
		name   string
		server *certtest.Identity
		change func(*Settings)
		ok     bool
	}{
		{"its address", ca.Issue("server", "127.0.0.1"), nil, true},
		{"its name", ca.Issue("server", "localhost"), nil, true},
		{"its common name, where there is no other", ca.Issue("localhost"), nil, true},
		{"a common name beside others", ca.Issue("localhost", "example.org"), nil, false},
		{"another host", ca.Issue("server", "example.org"), nil, false},
		{"another host, unchecked", ca.Issue("server", "example.org"), func(s *Settings) { s.NoHostCheck = true }, true},
		{"another authority", strangers.Issue("server", "localhost"), nil, false},
		{"another authority, hosts unchecked", strangers.Issue("server", "localhost"), func(s *Settings) { s.NoHostCheck = true }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := echo(t, open(t, settings(t, t.TempDir(), c.server, ca)), false)
			s := settings(t, t.TempDir(), me, ca)
			if c.change != nil {
				c.change(&s)
			}
			_, port, _ := net.SplitHostPort(addr)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			conn, err := open(t, s).Dial(ctx, "tcp", "localhost:"+port)
			if (err == nil) != c.ok {
				t.Fatalf("Dial says %v", err)
			}
			if err == nil {
				defer conn.Close()
				if got, err := says(conn, "hello"); got != "CN=me,O=Conclave\nhello\n" {
					t.Errorf("answered with %q (%v)", got, err)
				}
			}
		})
	}
}

// An operator is warned before other servers refuse a certificate.
func TestCertificatesThatOthersRefuseAreDoubted(t *testing.T) {
	ca := certtest.New("ca")
	for _, c := range []struct {
		who    *certtest.Identity
		hosts  []string
		change func(*Settings)
		want   string // "" for no doubt
	}{
		{ca.Issue("zk", "zk1.example", "192.0.2.1"), []string{"zk1.example"}, nil, ""},
		{ca.Issue("zk", "zk1.example", "192.0.2.1"), []string{"192.0.2.1"}, nil, ""},
		{ca.Issue("zk", "192.0.2.1"), []string{"zk1.example"}, nil, ""},
		{ca.Issue("192.0.2.1"), []string{"192.0.2.1"}, nil, ""},
		{ca.Issue("zk", "zk1.example"), []string{"192.0.2.9", "zk1.example"}, nil, "is for no address"},
		{ca.Issue("zk", "zk1.example"), []string{"zk1.example"}, func(s *Settings) { s.ReverseDNS = true }, ""},
		{ca.Issue("zk", "zk1.example"), []string{"zk1.example"}, func(s *Settings) { s.ClientHostCheck = false }, ""},
		{ca.Issue("zk", "zk2.example"), []string{"zk1.example"}, nil, "none of the hosts of this server's line (zk1.example)"},
		{ca.Issue("zk", "192.0.2.2"), []string{"192.0.2.1", "192.0.2.3"}, nil, "none of the hosts of this server's line (192.0.2.1, 192.0.2.3)"},
		{ca.Issue("zk", "192.0.2.2"), []string{"192.0.2.1"}, func(s *Settings) { s.NoHostCheck = true }, ""},
		{certtest.New("ca").Issue("zk", "192.0.2.1"), []string{"192.0.2.1"}, nil, "from no authority in ssl.trustStore"},
		{certtest.New("ca").Issue("zk", "192.0.2.1"), []string{"192.0.2.1"}, func(s *Settings) { s.Trust, s.ClientAuth = Store{}, "none" }, ""},
	} {
		s := settings(t, t.TempDir(), c.who, ca)
		s.ClientHostCheck = true
		if c.change != nil {
			c.change(&s)
		}
		if got := open(t, s).Doubt(c.hosts); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v, %v at %v: %q, want %q", c.who.Certificate.DNSNames, c.who.Certificate.IPAddresses, c.hosts, got, c.want)
		}
	}
}

// A certificate that replaces a good one is checked like the first one: existing links
// stay, but new ones would fail.
func TestNewCertificateThatOthersRefuseIsDoubted(t *testing.T) {
	ca, dir := certtest.New("ca"), t.TempDir()
	s := settings(t, dir, ca.Issue("zk", "192.0.2.1"), ca)
	s.Reload = true
	var log bytes.Buffer
	source, err := Open("ssl.", s, true, slog.New(slog.NewTextHandler(&log, nil)))
	must(t, err)
	source.TellDoubts([]string{"192.0.2.1"})
	for _, c := range []struct {
		who  *certtest.Identity
		want string
	}{
		{ca.Issue("zk", "192.0.2.2"), "is for none of the hosts"},
		{certtest.New("newer").Issue("zk", "192.0.2.1"), "is from no authority"},
		{ca.Issue("zk", "192.0.2.1"), ""},
	} {
		if told := log.String(); strings.Contains(told, "WARN") {
			t.Errorf("before: %q", told)
		}
		file(t, dir, "key.pem", keyStore(t, c.who, "PEM", ""))
		source.refresh()
		if told := log.String(); strings.Contains(told, "WARN") != (c.want != "") || !strings.Contains(told, c.want) {
			t.Errorf("%q, want %q", told, c.want)
		}
		log.Reset()
	}
}

// A certificate that nobody accepts is logged at the start, when it is read again, and once
// a day: the server itself would not notice.
func TestCertificateThatEndsIsTold(t *testing.T) {
	ca, now := certtest.New("ca"), time.Now()
	for _, c := range []struct {
		from, until time.Duration
		want        string // "" for nothing
	}{
		{-time.Hour, 24 * time.Hour, ""},
		{-21 * time.Hour, 3 * time.Hour, ""},
		{-22 * time.Hour, 2 * time.Hour, "a certificate expires soon"},
		{-25 * time.Hour, -time.Hour, "a certificate has expired"},
		{time.Hour, 24 * time.Hour, "a certificate is not valid yet"},
	} {
		who := ca.IssueAs(func(t *x509.Certificate) { t.NotBefore, t.NotAfter = now.Add(c.from), now.Add(c.until) }, "zk", "localhost")
		dir := t.TempDir()
		s := settings(t, dir, who, ca)
		s.Reload = true
		var log bytes.Buffer
		source, err := Open("ssl.", s, true, slog.New(slog.NewTextHandler(&log, nil)))
		must(t, err)
		for _, when := range []string{"at the start", "read again"} {
			if told := log.String(); strings.Contains(told, "WARN") != (c.want != "") || !strings.Contains(told, c.want) {
				t.Errorf("%v to %v, %s: %q, want %q", c.from, c.until, when, told, c.want)
			}
			log.Reset()
			file(t, dir, "key.pem", keyStore(t, who, "PEM", ""))
			source.refresh()
		}
	}
	synctest.Test(t, func(t *testing.T) { // the day is 2000-01-01
		day := time.Now()
		who := ca.IssueAs(func(t *x509.Certificate) { t.NotBefore, t.NotAfter = day, day.Add(26*time.Hour) }, "zk", "localhost")
		var log bytes.Buffer
		source, err := Open("ssl.", settings(t, t.TempDir(), who, ca), true, slog.New(slog.NewTextHandler(&log, nil)))
		must(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 49*time.Hour)
		defer stop()
		source.Watch(ctx)
		if told := log.String(); strings.Count(told, "\n") != 2 || !strings.Contains(told, "expires soon") || !strings.Contains(told, "has expired") {
			t.Errorf("in two days: %q", told)
		}
	})
}

// TestNameAloneCountsForClients: somebody who makes a name resolve to his own address, for
// which he has a certificate, is not accepted as the server with that name.
func TestNameAloneCountsForClients(t *testing.T) {
	ca := certtest.New("ca")
	me := ca.Issue("me", "127.0.0.1")
	for _, c := range []struct {
		certificate, dialed string
		ok                  bool
	}{
		{"127.0.0.1", "localhost", false},
		{"localhost", "localhost", true},
		{"127.0.0.1", "127.0.0.1", true},
		{"localhost", "127.0.0.1", false},
	} {
		addr := echo(t, open(t, settings(t, t.TempDir(), ca.Issue("server", c.certificate), ca)), false)
		s := settings(t, t.TempDir(), me, ca)
		s.DialedNameOnly = true
		_, port, _ := net.SplitHostPort(addr)
		conn, err := open(t, s).Dial(awaittest.Within(t), "tcp", net.JoinHostPort(c.dialed, port))
		if (err == nil) != c.ok {
			t.Errorf("a certificate for %s is shown by %s: Dial says %v", c.certificate, c.dialed, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

// An authority that is restricted to some hosts must not name another host by a common
// name, which the library does not check.
func TestCommonNamesDoNotEscapeConstraints(t *testing.T) {
	root := certtest.New("root")
	for _, c := range []struct {
		permitted string // below which hosts the authority may name; "" for any
		leaf      func(*certtest.Authority) *certtest.Identity
		ok        bool
	}{
		{"", func(a *certtest.Authority) *certtest.Identity { return a.Issue("127.0.0.1") }, true},
		{"localhost", func(a *certtest.Authority) *certtest.Identity { return a.Issue("x", "localhost") }, true},
		{"a.example.com", func(a *certtest.Authority) *certtest.Identity { return a.Issue("x", "localhost") }, false},
		{"a.example.com", func(a *certtest.Authority) *certtest.Identity { return a.Issue("localhost") }, false},
		{"a.example.com", func(a *certtest.Authority) *certtest.Identity { return a.Issue("127.0.0.1") }, false},
	} {
		below := root.IssueAs(func(template *x509.Certificate) {
			template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
			if c.permitted != "" {
				template.PermittedDNSDomains, template.PermittedDNSDomainsCritical = []string{c.permitted}, true
			}
		}, "below")
		who := c.leaf(&certtest.Authority{Key: below.Key, Certificate: below.Certificate})
		_, port, err := net.SplitHostPort(echo(t, open(t, settings(t, t.TempDir(), who, root)), false))
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		conn, err := open(t, settings(t, t.TempDir(), root.Issue("me"), root)).Dial(ctx, "tcp", "localhost:"+port)
		if (err == nil) != c.ok {
			t.Errorf("%v with names %v, where its authority may name %q, is dialed: %v", who.Certificate.Subject, who.Certificate.DNSNames, c.permitted, err)
		}
		if err == nil {
			conn.Close()
		}
		s := settings(t, t.TempDir(), root.Issue("server", "localhost"), root)
		s.ClientHostCheck = true
		dialed, err := tls.Dial("tcp", echo(t, open(t, s), false), client(root, who))
		if err == nil { // in TLS 1.3 a client learns later that it was refused
			defer dialed.Close()
			_, err = says(dialed, "hello")
		}
		if byAddress := who.Certificate.Subject.CommonName == "127.0.0.1"; (err == nil) != (c.ok && byAddress) {
			t.Errorf("%v with names %v, where its authority may name %q, dials: %v", who.Certificate.Subject, who.Certificate.DNSNames, c.permitted, err)
		}
	}
}

// Connections stay while all their files are replaced (secure-T3); while only one of two
// files was written, the previous material counts (secure-T2).
func TestFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	older, newer := certtest.New("older"), certtest.New("newer")
	s := settings(t, dir, older.Issue("server", "localhost"), older)
	s.Reload = true
	source := open(t, s)
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { source.Watch(ctx) })
	t.Cleanup(func() { stop(); watching.Wait() })
	addr := echo(t, source, false)
	connect := func(ca *certtest.Authority) (net.Conn, error) {
		conn, err := tls.Dial("tcp", addr, client(ca, ca.Issue("member")))
		if err != nil {
			return nil, err
		}
		if got, err := says(conn, "hello"); err != nil || got != "CN=member,O=Conclave\nhello\n" {
			conn.Close()
			return nil, errors.Join(err, errors.New(got))
		}
		return conn, nil
	}
	stays, err := connect(older)
	must(t, err)
	defer stays.Close()
	before := source.read.Load()
	file(t, dir, "key.pem", []byte("half a fi"))
	file(t, dir, "trust.pem", trustStore(t, newer, "PEM", ""))
	awaittest.Until(t, "both were looked at", func() bool {
		source.refreshing.Lock()
		defer source.refreshing.Unlock()
		return source.read.Load() != before || slices.EqualFunc(source.states(), source.refused, fileState.same)
	})
	if source.read.Load() != before {
		t.Error("files that do not fit together were taken")
	}
	file(t, dir, "key.pem", keyStore(t, newer.Issue("server", "localhost"), "PEM", ""))
	for {
		conn, err := connect(newer)
		if err == nil {
			conn.Close()
			break
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	if conn, err := connect(older); err == nil {
		conn.Close()
		t.Error("a certificate of an authority that was taken out is still taken")
	}
	if _, err := io.WriteString(stays, "again\n"); err != nil {
		t.Error(err)
	}
	b := make([]byte, 6)
	if _, err := io.ReadFull(stays, b); err != nil || string(b) != "again\n" {
		t.Errorf("the connection from before: %q, %v", b, err)
	}
}

// A connection that begins and then stays silent does not delay others.
func TestSilentHandshakesHoldUpNobody(t *testing.T) {
	ca := certtest.New("ca")
	addr := echo(t, open(t, settings(t, t.TempDir(), ca.Issue("server", "localhost"), ca)), false)
	for i := range 50 {
		silent, err := net.Dial("tcp", addr)
		must(t, err)
		defer silent.Close()
		if i%2 == 0 {
			_, err = silent.Write([]byte{tlsHandshake, 3})
			must(t, err)
		}
	}
	conn, err := tls.Dial("tcp", addr, client(ca, ca.Issue("member")))
	must(t, err)
	defer conn.Close()
	if got, err := says(conn, "hello"); err != nil || !strings.HasSuffix(got, "\nhello\n") {
		t.Errorf("answered with %q, %v", got, err)
	}
}
