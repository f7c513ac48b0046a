package secure

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/certtest"
	"golang.org/x/crypto/ocsp"
)

// registry says which certificates of an authority were revoked, by a list and as a
// responder.
type registry struct {
	t       *testing.T
	ca      *certtest.Authority
	url     string
	revoked atomic.Pointer[big.Int] // the number of one, nil for none
	asked   atomic.Int64
	since   time.Duration      // how long what is said has been true
	ends    time.Duration      // how long it is true from now on; 0 says nothing of it
	signer  *certtest.Identity // of answers, in place of the authority
	of      []pkix.Extension   // of the list
	ofEntry []pkix.Extension   // of an entry of another certificate, if there are any
	others  int                // entries of others
}

func newRegistry(t *testing.T, ca *certtest.Authority) *registry {
	r := &registry{t: t, ca: ca, since: time.Hour, ends: time.Hour}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /list", r.list)
	mux.HandleFunc("POST /ocsp", r.respond)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

func (r *registry) list(w http.ResponseWriter, _ *http.Request) {
	r.asked.Add(1)
	template := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-r.since), NextUpdate: time.Now().Add(r.ends)}
	if number := r.revoked.Load(); number != nil {
		template.RevokedCertificateEntries = []x509.RevocationListEntry{{SerialNumber: number, RevocationTime: time.Now()}}
	}
	template.ExtraExtensions = r.of
	if r.ofEntry != nil {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: big.NewInt(1), RevocationTime: time.Now(), ExtraExtensions: r.ofEntry})
	}
	for i := range r.others {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: big.NewInt(int64(i) + 1), RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, template, r.ca.Certificate, r.ca.Key)
	if err != nil {
		r.t.Error(err)
	}
	_, _ = w.Write(der)
}

func (r *registry) respond(w http.ResponseWriter, request *http.Request) {
	r.asked.Add(1)
	question, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	asked, err := ocsp.ParseRequest(question)
	if err != nil {
		r.t.Error(err)
		return
	}
	template := ocsp.Response{Status: ocsp.Good, SerialNumber: asked.SerialNumber, ThisUpdate: time.Now().Add(-r.since)}
	if r.ends != 0 {
		template.NextUpdate = time.Now().Add(r.ends)
	}
	if number := r.revoked.Load(); number != nil && number.Cmp(asked.SerialNumber) == 0 {
		template.Status, template.RevokedAt = ocsp.Revoked, time.Now()
	}
	by, key := r.ca.Certificate, r.ca.Key
	if r.signer != nil {
		by, key = r.signer.Certificate, r.signer.Key
		template.Certificate = by
	}
	der, err := ocsp.CreateResponse(r.ca.Certificate, by, template, key)
	if err != nil {
		r.t.Error(err)
	}
	_, _ = w.Write(der)
}

func TestRevokedCertificatesAreRefused(t *testing.T) {
	ca := certtest.New("ca")
	server := ca.Issue("server", "localhost")
	none := func(r *registry, c *x509.Certificate) {}
	list := func(r *registry, c *x509.Certificate) { c.CRLDistributionPoints = []string{r.url + "/list"} }
	responder := func(r *registry, c *x509.Certificate) { c.OCSPServer = []string{r.url + "/ocsp"} }
	gone := func(r *registry, c *x509.Certificate) { c.OCSPServer = []string{r.url + "/gone"} }
	both := func(a, b func(*registry, *x509.Certificate)) func(*registry, *x509.Certificate) {
		return func(r *registry, c *x509.Certificate) { a(r, c); b(r, c) }
	}
	for _, c := range []struct {
		name      string
		names     func(*registry, *x509.Certificate) // whom the certificate names
		crl, ocsp bool
		revoked   bool
		late      bool // what is said is out of date
		taken     bool
	}{
		{"a good one by list", list, true, false, false, false, true},
		{"a revoked one by list", list, true, false, true, false, false},
		{"by a list that is out of date", list, true, false, false, true, false},
		{"a good one by responder", responder, false, true, false, false, true},
		{"a revoked one by responder", responder, false, true, true, false, false},
		{"by a responder that is out of date", responder, false, true, false, true, false},
		{"one that names nobody", none, true, true, false, false, false},
		{"one that names a list, and lists are not read", list, false, true, false, false, false},
		{"a responder that does not answer", gone, false, true, false, false, false},
		{"a list where the responder does not answer", both(gone, list), true, true, false, false, true},
		{"revoked in the list where the responder does not answer", both(gone, list), true, true, true, false, false},
		{"a revoked one, and nobody is asked", list, false, false, true, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRegistry(t, ca)
			if c.late {
				r.ends = -time.Minute
			}
			member := ca.IssueAs(func(template *x509.Certificate) { c.names(r, template) }, "member")
			if c.revoked {
				r.revoked.Store(member.Certificate.SerialNumber)
			}
			s := settings(t, t.TempDir(), server, ca)
			s.CRL, s.OCSP = c.crl, c.ocsp
			conn, err := tls.Dial("tcp", echo(t, open(t, s), false), client(ca, member))
			if err == nil { // in TLS 1.3 a client learns later that it was refused
				defer conn.Close()
				_, err = says(conn, "hello")
			}
			if (err == nil) != c.taken {
				t.Errorf("the client has %v, taken should be %v", err, c.taken)
			}
		})
	}
}

// Anybody on the network path can replay an old answer, so an answer counts only while it
// is valid, which is short if it does not say when it expires.
func TestAnswersCountInTheirTime(t *testing.T) {
	ca := certtest.New("ca")
	for _, c := range []struct {
		name        string
		since, ends time.Duration
		list, taken bool
	}{
		{"of now, without an end", time.Minute, 0, false, true},
		{"of an hour ago, without an end", time.Hour, 0, false, false},
		{"of two years ago, without an end", 2 * 365 * 24 * time.Hour, 0, false, false},
		{"of two years ago, until now", 2 * 365 * 24 * time.Hour, time.Hour, false, true},
		{"of a clock that is fast", -time.Minute, time.Hour, false, true},
		{"of tomorrow", -24 * time.Hour, 48 * time.Hour, false, false},
		{"of tomorrow, without an end", -24 * time.Hour, 0, false, false},
		{"a list of a clock that is fast", -time.Minute, time.Hour, true, true},
		{"a list of tomorrow", -24 * time.Hour, 48 * time.Hour, true, false},
	} {
		registry := newRegistry(t, ca)
		registry.since, registry.ends = c.since, c.ends
		member := ca.IssueAs(func(template *x509.Certificate) {
			template.CRLDistributionPoints, template.OCSPServer = []string{registry.url + "/list"}, []string{registry.url + "/ocsp"}
		}, "member")
		r := &revocation{crl: c.list, ocsp: !c.list}
		if err := r.check([]*x509.Certificate{member.Certificate, ca.Certificate}); (err == nil) != c.taken {
			t.Errorf("an answer %s: %v", c.name, err)
		}
		for _, a := range r.answers {
			if latest := time.Now().Add(max(c.ends, clockSkew-c.since)); c.taken && a.until.After(latest) {
				t.Errorf("an answer %s is kept until %v, which is after %v", c.name, a.until, latest)
			}
		}
	}
}

// An authority may sign lists for parts of its certificates, and anybody on the network
// path can serve one in place of another.
func TestListsOfOtherCertificatesClearNone(t *testing.T) {
	ca := certtest.New("ca")
	point := func(names ...asn1.RawValue) (p pointName) { p.Full = names; return p }
	url := func(s string) asn1.RawValue {
		return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(s)}
	}
	const list = "ldap://list"
	issuing, delta, unknown, issuer := asn1.ObjectIdentifier{2, 5, 29, 28}, asn1.ObjectIdentifier{2, 5, 29, 27}, asn1.ObjectIdentifier{1, 2, 3},
		asn1.ObjectIdentifier{2, 5, 29, 29}
	scoped := func(s scope) []pkix.Extension {
		value, err := asn1.Marshal(s)
		must(t, err)
		return []pkix.Extension{{Id: issuing, Critical: true, Value: value}}
	}
	null := []byte{5, 0}
	for _, c := range []struct {
		name         string
		of, ofEntry  []pkix.Extension
		member, ofCA bool // whether a certificate of a member, and of an authority, is taken
	}{
		{"of all", nil, nil, true, true},
		{"of members", scoped(scope{Users: true}), nil, true, false},
		{"of authorities", scoped(scope{Authorities: true}), nil, false, true},
		{"of authorities, with a mark that is not critical", []pkix.Extension{{Id: issuing, Value: scoped(scope{Authorities: true})[0].Value}}, nil, false, true},
		{"of attributes", scoped(scope{Attributes: true}), nil, false, false},
		{"for a reason", scoped(scope{Reasons: asn1.BitString{Bytes: []byte{64}, BitLength: 2}}), nil, false, false},
		{"of several issuers", scoped(scope{Indirect: true}), nil, false, false},
		{"from where it is", scoped(scope{Point: point(url("http://other"), url(list))}), nil, true, true},
		{"from elsewhere", scoped(scope{Point: point(url("http://other"))}), nil, false, false},
		{"from a relative name", scoped(scope{Point: pointName{Relative: asn1.RawValue{Class: 2, Tag: 1, IsCompound: true, Bytes: null}}}), nil, false, false},
		{"of a scope that cannot be read", []pkix.Extension{{Id: issuing, Critical: true, Value: null}}, nil, false, false},
		{"of what has changed", []pkix.Extension{{Id: delta, Critical: true, Value: []byte{2, 1, 6}}}, nil, false, false},
		{"of what has changed, with a mark that is not critical", []pkix.Extension{{Id: delta, Value: []byte{2, 1, 6}}}, nil, false, false},
		{"with something unknown", []pkix.Extension{{Id: unknown, Value: null}}, nil, true, true},
		{"with something unknown that is critical", []pkix.Extension{{Id: unknown, Critical: true, Value: null}}, nil, false, false},
		{"with an entry that has something unknown", nil, []pkix.Extension{{Id: unknown, Value: null}}, true, true},
		{"with an entry of another issuer", nil, []pkix.Extension{{Id: issuer, Critical: true, Value: null}}, false, false},
	} {
		registry := newRegistry(t, ca)
		registry.of, registry.ofEntry = c.of, c.ofEntry
		for name, as := range map[string]struct{ authority, taken bool }{"a member": {false, c.member}, "an authority": {true, c.ofCA}} {
			who := ca.IssueAs(func(template *x509.Certificate) {
				template.CRLDistributionPoints, template.IsCA = []string{registry.url + "/list", list}, as.authority
			}, name)
			err := (&revocation{crl: true}).check([]*x509.Certificate{who.Certificate, ca.Certificate})
			if (err == nil) != as.taken {
				t.Errorf("%s by a list %s: %v", name, c.name, err)
			}
		}
	}
}

// A list is read once, however many clients connect: reading it in every handshake would
// delay all others, the longer the list. A refused list is not requested each time, either.
func TestListsAreReadOnce(t *testing.T) {
	ca := certtest.New("ca")
	const entries = 2000
	for name, since := range map[string]time.Duration{"good": time.Hour, "refused": -24 * time.Hour} {
		registry := newRegistry(t, ca)
		registry.others, registry.since, registry.ends = entries, since, 48*time.Hour
		member := ca.IssueAs(func(c *x509.Certificate) { c.CRLDistributionPoints = []string{registry.url + "/list"} }, "member")
		chain := []*x509.Certificate{member.Certificate, ca.Certificate}
		r, began := &revocation{crl: true}, time.Now()
		var first sync.WaitGroup
		for range 8 {
			first.Go(func() {
				if err := r.check(chain); (err == nil) != (name == "good") {
					t.Errorf("a list that is %s: %v", name, err)
				}
			})
		}
		first.Wait()
		each, asked := testing.AllocsPerRun(5, func() { _ = r.check(chain) }), registry.asked.Load()
		if name == "refused" && time.Since(began) >= silenceKeep {
			continue // the machine has stalled, and it may be asked for again
		}
		if each > entries/10 {
			t.Errorf("a list of %d that is %s takes %v allocations with each handshake", entries, name, each)
		}
		if n := asked; n != 1 {
			t.Errorf("a list that is %s was asked for %d times", name, n)
		}
	}
}

// Two authorities may name the same place; a list signed by one says nothing about
// certificates of the other.
func TestListIsOfItsSigner(t *testing.T) {
	ca, other := certtest.New("ca"), certtest.New("ca")
	registry := newRegistry(t, ca)
	r := &revocation{crl: true}
	names := func(c *x509.Certificate) { c.CRLDistributionPoints = []string{registry.url + "/list"} }
	if err := r.check([]*x509.Certificate{ca.IssueAs(names, "member").Certificate, ca.Certificate}); err != nil {
		t.Error(err)
	}
	if err := r.check([]*x509.Certificate{other.IssueAs(names, "member").Certificate, other.Certificate}); err == nil {
		t.Error("a list of another authority counts")
	}
}

// A responder may have a certificate of its own, made for this purpose; the holder of any
// other certificate of the same authority must not sign answers.
func TestAnswersAreSignedByThoseWhoMay(t *testing.T) {
	ca := certtest.New("ca")
	server := ca.Issue("server", "localhost")
	for name, usage := range map[string][]x509.ExtKeyUsage{
		"made for it": {x509.ExtKeyUsageOCSPSigning}, "made for clients": {x509.ExtKeyUsageClientAuth}, "made for anything": nil,
	} {
		r := newRegistry(t, ca)
		r.signer = ca.IssueAs(func(c *x509.Certificate) { c.ExtKeyUsage = usage }, "responder")
		member := ca.IssueAs(func(c *x509.Certificate) { c.OCSPServer = []string{r.url + "/ocsp"} }, "member")
		s := settings(t, t.TempDir(), server, ca)
		s.OCSP = true
		conn, err := tls.Dial("tcp", echo(t, open(t, s), false), client(ca, member))
		if err == nil {
			defer conn.Close()
			_, err = says(conn, "hello")
		}
		if (err == nil) != (name == "made for it") {
			t.Errorf("an answer signed with a certificate %s: %v", name, err)
		}
	}
}

// Servers that are dialed are checked like clients, and answers are cached.
func TestRevokedServersAreNotDialed(t *testing.T) {
	ca := certtest.New("ca")
	r := newRegistry(t, ca)
	server := ca.IssueAs(func(c *x509.Certificate) { c.CRLDistributionPoints = []string{r.url + "/list"} }, "server", "localhost")
	addr := echo(t, open(t, settings(t, t.TempDir(), server, ca)), false)
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	mine := settings(t, t.TempDir(), ca.Issue("me"), ca)
	mine.CRL = true
	source := open(t, mine)
	for range 3 {
		conn, err := source.Dial(t.Context(), "tcp", "localhost:"+port)
		must(t, err)
		conn.Close()
	}
	if n := r.asked.Load(); n != 1 {
		t.Errorf("the list was read %d times", n)
	}
	r.revoked.Store(server.Certificate.SerialNumber)
	if conn, err := open(t, mine).Dial(t.Context(), "tcp", "localhost:"+port); err == nil {
		conn.Close()
		t.Error("a server with a revoked certificate was dialed")
	}
}
