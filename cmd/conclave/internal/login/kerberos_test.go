package login

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/sasl"
	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// A realm has the keys of a service, and issues tickets for it like a KDC.
type realm struct {
	t    testing.TB
	name string
	keys *keytab.Keytab
	path string
	kind int32
}

func newRealm(t testing.TB, kind int32) *realm {
	r := &realm{t: t, name: "EXAMPLE.COM", keys: keytab.New(), path: filepath.Join(t.TempDir(), "zk.keytab"), kind: kind}
	r.add("zookeeper/h1", 1)
	return r
}

func (r *realm) add(principal string, version uint8) {
	r.t.Helper()
	if err := r.keys.AddEntry(principal, r.name, "secret", time.Now(), version, r.kind); err != nil {
		r.t.Fatal(err)
	}
	text, err := r.keys.Marshal()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// ticket is what a client gets for a service.
func (r *realm) ticket(client, service string, version int, until time.Time) shown {
	r.t.Helper()
	now := time.Now().UTC()
	name := types.NewPrincipalName(1, client)
	t, key, err := messages.NewTicket(name, r.name, types.NewPrincipalName(2, service), r.name, types.NewKrbFlags(), r.keys, r.kind,
		version, now.Add(-time.Hour), now.Add(-time.Hour), until, until)
	if err != nil {
		r.t.Fatal(err)
	}
	return shown{t, key, name, r.name}
}

func (r *realm) client(with shown) *initiating {
	return &initiating{to: "zookeeper/h1", get: func(string) (shown, error) { return with, nil }}
}

// server reads the key table that a section names.
func (r *realm) server(principal string) func() sasl.Server {
	r.t.Helper()
	path := written(r.t, "jaas.conf", `Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true
		keyTab="`+r.path+`" principal="`+principal+`"; };`)
	f, err := Open(Settings{File: path, FIPS: true})
	if err != nil {
		r.t.Fatal(err)
	}
	begin, err := f.Server("Server", Clients)
	if err != nil {
		r.t.Fatal(err)
	}
	return begin
}

func soon() time.Time { return time.Now().UTC().Add(time.Hour) }

func TestWhoHasATicketIsAccepted(t *testing.T) {
	for _, kind := range []int32{17, 18, 19} {
		r := newRealm(t, kind)
		for _, principal := range []string{"zookeeper/h1@EXAMPLE.COM", "*"} {
			s := r.server(principal)()
			if err := meet(s, r.client(r.ticket("kafka/h2", "zookeeper/h1", 1, soon()))); err != nil {
				t.Fatalf("type %d, %s: %v", kind, principal, err)
			}
			if proved, acts := s.Names(); proved != "kafka/h2@EXAMPLE.COM" || acts != proved {
				t.Errorf("%s, acts as %s", proved, acts)
			}
		}
	}
}

func TestNobodyWithoutATicketIsAccepted(t *testing.T) {
	r := newRealm(t, 18)
	r.add("other/h1", 1)
	good := r.ticket("bob", "zookeeper/h1", 1, soon())
	late := r.ticket("bob", "zookeeper/h1", 1, time.Now().UTC().Add(-time.Hour))
	others := r.ticket("bob", "other/h1", 1, soon())
	stolen, odd, abroad := good, r.ticket("bob", "zookeeper/h1", 1, soon()), good
	stolen.key.KeyValue = bytes.Repeat([]byte{7}, 32)
	odd.name = types.NewPrincipalName(1, "root")
	abroad.realm = "OTHER.COM"
	weak := newRealm(t, 23)
	for name, c := range map[string]struct {
		with shown
		want string
	}{
		"late": {late, "not valid"}, "for another service": {others, "not valid"}, "stolen": {stolen, "not valid"},
		"as root": {odd, "not valid"}, "of another realm": {abroad, "another client"},
	} {
		s := r.server("zookeeper/h1@EXAMPLE.COM")()
		if err := meet(s, r.client(c.with)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if proved, _ := s.Names(); proved != "" {
			t.Errorf("%s: %s", name, proved)
		}
	}
	if err := meet(weak.server("*")(), weak.client(weak.ticket("bob", "zookeeper/h1", 1, soon()))); err == nil || !strings.Contains(err.Error(), "AES") {
		t.Errorf("RC4: %v", err)
	}
}

// sealedTicket is a ticket of one type for a key of another.
func (r *realm) sealedTicket(kind int32, key types.EncryptionKey) shown {
	r.t.Helper()
	with, now := r.ticket("bob", "zookeeper/h1", 1, soon()), time.Now().UTC()
	text, err := asn1.Marshal(messages.EncTicketPart{Flags: types.NewKrbFlags(), Key: key, CRealm: r.name, CName: with.name,
		AuthTime: now, StartTime: now.Add(-time.Hour), EndTime: soon(), RenewTill: soon()})
	if err != nil {
		r.t.Fatal(err)
	}
	own, _, err := r.keys.GetEncryptionKey(with.ticket.SName, r.name, 1, kind)
	if err != nil {
		r.t.Fatal(err)
	}
	const ofTicket, usage = 3, 2
	if with.ticket.EncPart, err = crypto.GetEncryptedData(asn1tools.AddASNAppTag(text, ofTicket), own, usage, 1); err != nil {
		r.t.Fatal(err)
	}
	with.key = key
	return with
}

// asks returns the first token of a client that chooses a subkey, without the library's rules.
func (s shown) asks(t *testing.T, own types.EncryptionKey) []byte {
	t.Helper()
	who, err := types.NewAuthenticator(s.realm, s.name)
	if err != nil {
		t.Fatal(err)
	}
	who.Cksum, who.SubKey = types.Checksum{CksumType: 0x8003, Checksum: make([]byte, 24)}, own
	req, err := messages.NewAPReq(s.ticket, s.key, who)
	if err != nil {
		t.Fatal(err)
	}
	body, err := req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return wrapped(apReq, body)
}

// A Windows key table also has RC4 keys. An attacker who knows the service's RC4 key
// can make tickets for anybody; a strong key around such a ticket does not help.
func TestWeakEncryptionIsRefusedWhereverItIs(t *testing.T) {
	const weak, good = 23, 18
	r := newRealm(t, good)
	r.kind = weak
	r.add("zookeeper/h1", 1)
	r.kind = good
	key := func(kind int32) types.EncryptionKey {
		return types.EncryptionKey{KeyType: kind, KeyValue: bytes.Repeat([]byte{1}, map[int32]int{0: 0, weak: 16, good: 32}[kind])}
	}
	for _, c := range []struct{ ticket, session, own int32 }{
		{good, good, 0}, {good, good, good}, {weak, good, 0}, {weak, weak, good}, {weak, good, good}, {good, weak, good}, {good, weak, 0}, {good, good, weak},
	} {
		with := r.sealedTicket(c.ticket, key(c.session))
		taken := c.ticket != weak && c.session != weak && c.own != weak
		_, _, err := r.server("zookeeper/h1@EXAMPLE.COM")().Next(with.asks(t, key(c.own)))
		if (err == nil) != taken || err != nil && !strings.Contains(err.Error(), "use AES") {
			t.Errorf("a service takes type %d, with a key of type %d, and %d: %v", c.ticket, c.session, c.own, err)
		}
		if c.own != 0 {
			continue
		}
		_, _, err = r.client(with).Next(nil)
		if (err == nil) != taken || err != nil && !strings.Contains(err.Error(), "use AES") {
			t.Errorf("a client shows type %d, with a key of type %d: %v", c.ticket, c.session, err)
		}
	}
}

// The service may choose a subkey, too.
func TestWeakKeyOfTheServiceIsRefused(t *testing.T) {
	r := newRealm(t, 18)
	for kind, size := range map[int32]int{18: 32, 23: 16} {
		c := r.client(r.ticket("bob", "zookeeper/h1", 1, soon()))
		if _, _, err := c.Next(nil); err != nil {
			t.Fatal(err)
		}
		part, err := asn1.Marshal(messages.EncAPRepPart{CTime: c.sent.CTime, Cusec: c.sent.Cusec,
			Subkey: types.EncryptionKey{KeyType: kind, KeyValue: make([]byte, size)}})
		if err != nil {
			t.Fatal(err)
		}
		const ofPart, ofReply, usage = 27, 15, 12
		secret, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(part, ofPart), c.key, usage, 0)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: 15, EncPart: secret})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = c.Next(wrapped(apRep, asn1tools.AddASNAppTag(reply, ofReply))); (err == nil) != (kind == 18) {
			t.Errorf("type %d: %v", kind, err)
		}
	}
}

// A name whose parts contain separators would be written as the name of somebody else.
func TestNamesThatReadAsOthersAreRefused(t *testing.T) {
	r := newRealm(t, 18)
	for _, parts := range [][]string{{"kafka/h2"}, {"bob@EXAMPLE.COM"}, {"bob", ""}, {}, {`a\b`}} {
		with := r.ticket("x", "zookeeper/h1", 1, soon())
		now := time.Now().UTC()
		name := types.PrincipalName{NameType: 1, NameString: parts}
		ticket, key, err := messages.NewTicket(name, r.name, types.NewPrincipalName(2, "zookeeper/h1"), r.name, types.NewKrbFlags(), r.keys, 18, 1,
			now, now, soon(), soon())
		if err != nil {
			t.Fatal(err)
		}
		with.ticket, with.key, with.name = ticket, key, name
		c := r.client(with)
		token, _, err := c.Next(nil)
		if err == nil {
			_, _, err = r.server("*")().Next(token)
		}
		if err == nil {
			t.Errorf("%q is taken", parts)
		}
		if text, err := textOf(name, r.name); len(parts) > 0 && err == nil {
			t.Errorf("%q is written %s", parts, text)
		}
	}
}

// A key table may have keys of the same name in two realms; a section belongs to one of them.
func TestTicketOfAnotherRealmIsRefused(t *testing.T) {
	ours, others := newRealm(t, 18), newRealm(t, 18)
	others.name, others.path = "OTHER.COM", ours.path
	others.keys = ours.keys
	others.add("zookeeper/h1", 1)
	for _, c := range []struct {
		principal string
		of        *realm
		taken     bool
	}{
		{"zookeeper/h1@EXAMPLE.COM", ours, true}, {"zookeeper/h1@EXAMPLE.COM", others, false},
		{"zookeeper/h1@OTHER.COM", ours, false}, {"zookeeper/h1@OTHER.COM", others, true}, {"*", ours, true}, {"*", others, true},
	} {
		s := ours.server(c.principal)()
		err := meet(s, c.of.client(c.of.ticket("bob", "zookeeper/h1", 1, soon())))
		if proved, _ := s.Names(); (err == nil) != c.taken || (proved != "") != c.taken {
			t.Errorf("%s takes a ticket of %s: %q, %v", c.principal, c.of.name, proved, err)
		}
	}
}

func TestATicketIsShownOnce(t *testing.T) {
	r := newRealm(t, 18)
	c := r.client(r.ticket("bob", "zookeeper/h1", 1, soon()))
	token, _, err := c.Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := r.server("zookeeper/h1@EXAMPLE.COM")
	if _, _, err := begin().Next(token); err != nil {
		t.Fatal(err)
	}
	if _, _, err := begin().Next(token); err == nil || !strings.Contains(err.Error(), "shown before") {
		t.Errorf("a second time: %v", err)
	}
}

// Keys are rotated while the server runs.
func TestNewKeysCountAtOnce(t *testing.T) {
	r := newRealm(t, 18)
	begin := r.server("zookeeper/h1@EXAMPLE.COM")
	r.add("zookeeper/h1", 2)
	for version := range 2 {
		if err := meet(begin(), r.client(r.ticket("bob", "zookeeper/h1", version+1, soon()))); err != nil {
			t.Errorf("version %d: %v", version+1, err)
		}
	}
}

// A client does not accept a service that does not have the service's key.
func TestServiceProvesItselfToo(t *testing.T) {
	r, forger := newRealm(t, 18), newRealm(t, 18)
	c := r.client(r.ticket("bob", "zookeeper/h1", 1, soon()))
	if _, _, err := c.Next(nil); err != nil {
		t.Fatal(err)
	}
	other := forger.client(forger.ticket("bob", "zookeeper/h1", 1, soon()))
	token, _, err := other.Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, _, err := forger.server("*")().Next(token)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Next(answer); err == nil {
		t.Error("it accepts what was said to another")
	}
}

// A rotated message of RFC 4121, as Windows sends it (section 4.2.5).
func TestMessagesMayBeTurned(t *testing.T) {
	key := types.EncryptionKey{KeyType: 18, KeyValue: bytes.Repeat([]byte{1}, 32)}
	token, err := sealed(key, byAcceptor, 7, []byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	body := token[sealHeader:]
	for turn := range 2 * len(body) {
		b := bytes.Clone(token[:sealHeader])
		b[6], b[7] = byte(turn>>8), byte(turn)
		at := len(body) - turn%len(body)
		b = append(append(b, body[at:]...), body[:at]...)
		if text, err := unsealed(key, byAcceptor, b); err != nil || string(text) != "text" {
			t.Fatalf("turned by %d: %q, %v", turn, text, err)
		}
	}
	for at := range token {
		if at == 6 || at == 7 {
			continue // the rotation count is not protected
		}
		b := bytes.Clone(token)
		b[at] ^= 1
		if text, err := unsealed(key, byAcceptor, b); err == nil {
			t.Errorf("byte %d changed: %q", at, text)
		}
	}
	if _, err := unsealed(key, 0, token); err == nil {
		t.Error("its own message comes back, and is taken")
	}
}

func FuzzKerberosTokens(f *testing.F) {
	r := newRealm(f, 18)
	c := r.client(r.ticket("bob", "zookeeper/h1", 1, soon()))
	token, _, err := c.Next(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token)
	b, _ := hex.DecodeString("60")
	f.Add(b)
	f.Fuzz(func(t *testing.T, token []byte) {
		a := &accepting{keys: &keyTable{path: r.path, keys: r.keys}}
		if _, done, _ := a.Next(token); done {
			t.Fatal("one token is a proof")
		}
		_, _ = unsealed(types.EncryptionKey{KeyType: 18, KeyValue: bytes.Repeat([]byte{1}, 32)}, 0, token)
	})
}
