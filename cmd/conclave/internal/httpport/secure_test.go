package httpport

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/secure"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/conclave-project/conclave/internal/lobby"
)

// files are the TLS files of a server.
type files struct{ key, trust string }

// write replaces the files as an operator does: by renaming.
func (f files) write(t *testing.T, who *certtest.Identity, trusted *certtest.Authority) {
	t.Helper()
	for name, content := range map[string][]byte{f.key: append(who.KeyPEM(), who.PEM()...), f.trust: trusted.PEM()} {
		if err := os.WriteFile(name+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
}

// source reads the files, and reads them again when they change.
func source(t *testing.T, clientAuth string, who *certtest.Identity, trusted *certtest.Authority) (*secure.Source, files) {
	t.Helper()
	f := files{filepath.Join(t.TempDir(), "key.pem"), filepath.Join(t.TempDir(), "trust.pem")}
	f.write(t, who, trusted)
	s, err := secure.Open("test.", secure.Settings{
		Key: secure.Store{Location: f.key}, Trust: secure.Store{Location: f.trust}, ClientAuth: clientAuth, Reload: true,
	}, true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { s.Watch(ctx) })
	t.Cleanup(func() { stop(); watching.Wait() })
	return s, f
}

// secured opens a port that speaks TLS. If change is not nil, it is called before Serve.
func secured(t *testing.T, with TLS, change func(*Port)) (*Port, *awaittest.Log) {
	t.Helper()
	p, err := Listen("test", "127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	p.Secure(with)
	if change != nil {
		change(p)
	}
	said := &awaittest.Log{}
	p.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") }),
		time.Hour, slog.New(slog.NewTextHandler(said, nil)))
	t.Cleanup(p.Close)
	return p, said
}

// dials returns the configuration of a client that trusts an authority, and shows a
// certificate or none.
func dials(trusted *certtest.Authority, who *certtest.Identity) *tls.Config {
	c := &tls.Config{RootCAs: trusted.Pool(), ServerName: "localhost"}
	if who != nil {
		shown := who.TLS()
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
	}
	return c
}

// fetch requests a page on a new connection.
func fetch(t *testing.T, scheme string, p *Port, with *tls.Config) (*http.Response, error) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: with, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(awaittest.Within(t), http.MethodGet, scheme+"://"+p.Addr().String()+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode == http.StatusOK && string(body) != "yes" {
		err = fmt.Errorf("answered %q", body)
	}
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(string(body))
	}
	return response, err
}

// TestWhoIsAnsweredOverTLS: with each kind of certificate that may be required, and on a
// port for both.
func TestWhoIsAnsweredOverTLS(t *testing.T) {
	ca, strangers := certtest.New("ca"), certtest.New("strangers")
	operator, stranger := ca.Issue("operator"), strangers.Issue("stranger")
	const strictly, refused, plainRefused = "answered, strictly", "refused", "This port speaks only TLS"
	for name, c := range map[string]struct {
		auth             string
		plainToo, strict bool
		with             *tls.Config // nil: plain
		want             string
	}{
		"TLS":                                  {"none", false, false, dials(ca, nil), ""},
		"TLS, strictly":                        {"none", false, true, dials(ca, nil), strictly},
		"a server of another authority":        {"none", false, false, dials(strangers, nil), "certificate"},
		"plain":                                {"none", false, false, nil, plainRefused},
		"plain where certificates are needed":  {"need", false, false, nil, plainRefused},
		"a certificate":                        {"need", false, false, dials(ca, operator), ""},
		"none where one is needed":             {"need", false, false, dials(ca, nil), refused},
		"one of another authority":             {"need", false, false, dials(ca, stranger), refused},
		"none where one is wanted":             {"want", false, false, dials(ca, nil), ""},
		"one of another authority is wanted":   {"want", false, false, dials(ca, stranger), refused},
		"both: TLS":                            {"none", true, true, dials(ca, nil), strictly},
		"both: plain":                          {"none", true, true, nil, ""},
		"both: plain, and certificates in TLS": {"need", true, true, nil, ""},
		"both: TLS without a certificate":      {"need", true, true, dials(ca, nil), refused},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := source(t, c.auth, ca.Issue("server", "localhost"), ca)
			p, said := secured(t, TLS{Source: s, PlainToo: c.plainToo, Strict: c.strict}, nil)
			scheme := "http"
			if c.with != nil {
				scheme = "https"
			}
			response, err := fetch(t, scheme, p, c.with)
			switch {
			case c.want == "" || c.want == strictly:
				if err != nil || (c.want == strictly) != (response.Header.Get("Strict-Transport-Security") == strict) {
					t.Errorf("%v, %v", response, err)
				}
				if plain := c.with == nil; plain != (p.Plain() == 1) {
					t.Errorf("%d plain connections", p.Plain())
				}
			case err == nil:
				t.Error("answered")
			case c.want != refused && !strings.Contains(err.Error(), c.want):
				t.Error(err)
			default:
				awaittest.Until(t, "it is logged", func() bool { return strings.Contains(said.String(), "a handshake failed") })
			}
		})
	}
}

// TestChangedFilesCountAndNoRequestFails: connections stay, new ones get the new
// certificate, and a client whose authority was removed is refused.
func TestChangedFilesCountAndNoRequestFails(t *testing.T) {
	before, after := certtest.New("before"), certtest.New("after")
	s, f := source(t, "need", before.Issue("server", "localhost"), before)
	p, _ := secured(t, TLS{Source: s}, nil)
	both := dials(before, before.Issue("old"))
	both.RootCAs.AddCert(after.Certificate)
	old, err := tls.Dial("tcp", p.Addr().String(), both)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	in := bufio.NewReader(old)
	asks := func() error {
		_ = old.SetDeadline(time.Now().Add(awaittest.Patience))
		if _, err := io.WriteString(old, get+"\r\n"); err != nil {
			return err
		}
		response, err := http.ReadResponse(in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
		}
		return err
	}
	// Other clients send requests all the time, on new connections, with certificates of
	// the authority that is trusted at the moment.
	var now struct {
		sync.RWMutex
		with *tls.Config
	}
	now.with = dials(before, before.Issue("load"))
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				now.RLock()
				with := now.with
				_, err := fetch(t, "https", p, with)
				now.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	now.Lock() // both sides must change what they trust together, or requests would fail
	f.write(t, after.Issue("server", "localhost"), after)
	fresh := dials(after, after.Issue("new"))
	awaittest.Until(t, "the new files count", func() bool { _, err := fetch(t, "https", p, fresh); return err == nil })
	now.with = fresh
	now.Unlock()
	f.write(t, after.Issue("server again", "localhost"), after)
	awaittest.Until(t, "they count again", func() bool {
		response, err := fetch(t, "https", p, fresh)
		return err == nil && response.TLS.PeerCertificates[0].Subject.CommonName == "server again"
	})
	close(stop)
	load.Wait()
	if err := asks(); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	if _, err := fetch(t, "https", p, both); err == nil {
		t.Error("a client of the authority from before is answered")
	}
}

// TestHandshakesThatDoNotEndAreBounded: each has a time limit, wherever it stops, and
// together they are limited to the number of connections.
func TestHandshakesThatDoNotEndAreBounded(t *testing.T) {
	ca := certtest.New("ca")
	s, _ := source(t, "need", ca.Issue("server", "localhost"), ca)
	const short = 300 * time.Millisecond
	p, said := secured(t, TLS{Source: s}, func(p *Port) { p.readTime = short })
	for name, begins := range map[string]string{
		"nothing": "", "one byte": "\x16", "a record that does not come": "\x16\x03\x01\x02\x00", "a long hello": "\x16\x03\x01\x00\x04\x01\x00\xff\xff",
	} {
		conn, err := net.Dial("tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := io.WriteString(conn, begins); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(awaittest.Patience))
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: the connection is open: %v", name, err)
		}
		if took := time.Since(began); took > readTime {
			t.Errorf("%s: it was open for %v", name, took)
		}
		conn.Close()
	}
	if !strings.Contains(said.String(), errSlow.Error()) {
		t.Errorf("logged: %q", said.String())
	}
}

// TestHandshakeOfWhoDoesNotReadIsBounded: the server does not wait for a client that does
// not read a certificate larger than the system's buffers.
func TestHandshakeOfWhoDoesNotReadIsBounded(t *testing.T) {
	ca := certtest.New("ca")
	large := ca.IssueAs(func(c *x509.Certificate) {
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3, 4}, Value: make([]byte, 9<<20)}}
	}, "server", "localhost")
	s, _ := source(t, "none", large, ca)
	p, said := secured(t, TLS{Source: s}, func(p *Port) { p.readTime = 300 * time.Millisecond })
	conn, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	unread := &once{Conn: conn, hello: make(chan struct{})}
	go func() { _ = tls.Client(unread, dials(ca, nil)).Handshake() }()
	<-unread.hello
	awaittest.Until(t, "it has ended", func() bool { return strings.Contains(said.String(), errSlow.Error()) })
	awaittest.Until(t, "its place is free", func() bool { return p.listener.(*crowded).lobby.Count() == 0 })
}

// once is a connection that sends something, and reads nothing until it is closed.
type once struct {
	net.Conn
	hello chan struct{}
	told  sync.Once
}

func (c *once) Write(b []byte) (int, error) {
	defer c.told.Do(func() { close(c.hello) })
	return c.Conn.Write(b)
}

func (c *once) Read([]byte) (int, error) { <-c.hello; return 0, os.ErrDeadlineExceeded }

// TestHandshakesCountAsConnections: even with the maximum number of handshakes under way, a
// client that speaks gets a place.
func TestHandshakesCountAsConnections(t *testing.T) {
	ca := certtest.New("ca")
	s, _ := source(t, "need", ca.Issue("server", "localhost"), ca)
	p, _ := secured(t, TLS{Source: s}, func(p *Port) { p.readTime = time.Hour })
	var idle []net.Conn
	for range lobby.Max + 10 {
		conn, err := net.Dial("tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "\x16\x03\x01"); err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	if _, err := fetch(t, "https", p, dials(ca, ca.Issue("operator"))); err != nil {
		t.Error(err)
	}
	_ = idle[0].SetReadDeadline(time.Now().Add(awaittest.Patience))
	if _, err := idle[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the first of them is open: %v", err)
	}
}

// teed keeps a copy of what is read.
type teed struct {
	net.Conn
	read []byte
}

func (c *teed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read = append(c.read, b[:n]...)
	return n, err
}

// TestAnswerWithoutALengthIsKnownToBeWhole: its end is signalled in TLS, not by the socket
// alone.
func TestAnswerWithoutALengthIsKnownToBeWhole(t *testing.T) {
	ca := certtest.New("ca")
	s, _ := source(t, "none", ca.Issue("server", "localhost"), ca)
	p, _ := secured(t, TLS{Source: s}, nil)
	socket, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	_ = socket.SetDeadline(time.Now().Add(awaittest.Patience))
	with := dials(ca, nil)
	with.MaxVersion = tls.VersionTLS12 // its records show their type
	came := &teed{Conn: socket}
	conn := tls.Client(came, with)
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn) // Go accepts an end without a close message like one with it
	if err != nil || !strings.HasSuffix(string(answer), "yes") {
		t.Errorf("%q, %v", answer, err)
	}
	const head, alert = 5, 21
	kind := byte(0)
	for rest := came.read; len(rest) >= head; rest = rest[min(len(rest), head+int(rest[3])<<8+int(rest[4])):] {
		kind = rest[0]
	}
	if kind != alert {
		t.Errorf("the last record is of kind %d", kind)
	}
}

func TestClosedPortDoesNotWaitForThoseThatShakeHands(t *testing.T) {
	ca := certtest.New("ca")
	s, _ := source(t, "none", ca.Issue("server", "localhost"), ca)
	p, _ := secured(t, TLS{Source: s}, func(p *Port) { p.readTime = time.Hour })
	conn, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "\x16"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { p.Close(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(awaittest.Patience):
		t.Error("the port is not closed")
	}
}
