package secure

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/youmark/pkcs8"
)

// damages calls f with content cut short at some bytes, and with each byte changed.
func damages(content []byte, f func([]byte)) {
	for i := range content {
		if i%8 == 0 {
			f(content[:i])
		}
		changed := bytes.Clone(content)
		changed[i] ^= 1 << (i % 8)
		f(changed)
	}
}

// inPEM calls f with damages of the key in a PEM, each in a PEM that is whole.
func inPEM(content []byte, f func([]byte)) {
	key, rest := pem.Decode(content)
	damages(key.Bytes, func(der []byte) {
		f(append(pem.EncodeToMemory(&pem.Block{Type: key.Type, Bytes: der}), rest...))
	})
}

// However a store was damaged, reading it returns an error and does no harm.
func TestDamagedStoresAreErrors(t *testing.T) {
	ca := certtest.New("ca")
	me := ca.Issue("me", "localhost")
	for _, c := range []struct {
		form, password string
		each           func([]byte, func([]byte))
	}{{"PEM", "secret", inPEM}, {"PEM", "", inPEM}, {"PEM", "", damages}, {"JKS", "secret", damages}, {"PKCS12", "secret", damages}} {
		dir, read := t.TempDir(), 0
		c.each(keyStore(t, me, c.form, c.password), func(content []byte) {
			s := Store{Location: file(t, dir, "store", content), Type: c.form, Password: c.password}
			_, err := s.keys()
			_, _ = s.authorities()
			if err == nil {
				read++
			}
		})
		if c.form == "JKS" && read > 0 {
			t.Errorf("%d damages of a %s are not found", read, c.form)
		}
	}
}

// A length in a file must not cause an allocation.
func TestStoreTakesNoMemoryThatItsFileDoesNotHave(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, 0xFEEDFEED)
	for _, n := range []uint32{2, 1, 1} { // its version, one entry: a private key
		head = binary.BigEndian.AppendUint32(head, n)
	}
	head = append(append(head, 0, 1, 'a'), make([]byte, 8)...)
	for name, content := range map[string][]byte{
		"a key of 1 GiB":      binary.BigEndian.AppendUint32(bytes.Clone(head), 1<<30),
		"2^24 certificates":   binary.BigEndian.AppendUint32(append(bytes.Clone(head), 0, 0, 0, 0), 1<<24),
		"a key that is there": append(binary.BigEndian.AppendUint32(bytes.Clone(head), 20), make([]byte, 20)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := Store{Location: file(t, t.TempDir(), "store.jks", content), Password: "secret"}
		if _, err := s.keys(); err == nil || !strings.Contains(err.Error(), "store.jks") {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 8<<20 {
			t.Errorf("%s in a file of %d bytes took %d MiB", name, len(content), took>>20)
		}
	}
}

// A file says how often a password is hashed, so there is a limit.
func TestStoreTakesNoMoreWorkThanThereIsUseFor(t *testing.T) {
	me := certtest.New("ca").Issue("me")
	of := func(kdf asn1.ObjectIdentifier, parameters any) []byte {
		var key struct {
			Algorithm struct {
				ID         asn1.ObjectIdentifier
				Parameters struct{ KDF, Scheme pkix.AlgorithmIdentifier }
			}
			Data []byte
		}
		der, err := pkcs8.MarshalPrivateKey(me.Key, []byte("secret"), nil)
		must(t, err)
		_, err = asn1.Unmarshal(der, &key)
		must(t, err)
		text, err := asn1.Marshal(parameters)
		must(t, err)
		key.Algorithm.Parameters.KDF = pkix.AlgorithmIdentifier{Algorithm: kdf, Parameters: asn1.RawValue{FullBytes: text}}
		der, err = asn1.Marshal(key)
		must(t, err)
		return append(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der}), me.PEM()...)
	}
	type rounds struct {
		Salt  []byte
		Count int64
	}
	type costs struct {
		Salt    []byte
		N, R, P int64
	}
	salt := make([]byte, 8)
	for name, content := range map[string][]byte{
		"PBKDF2":                of(oidPBKDF2, rounds{salt, 1 << 31}),
		"scrypt that takes RAM": of(oidScrypt, costs{salt, 1 << 22, 8, 1}),
		"scrypt that repeats":   of(oidScrypt, costs{salt, 1 << 14, 8, 1 << 20}),
		"scrypt that wraps":     of(oidScrypt, costs{salt, 1 << 14, 1 << 9, 1 << 9}),
		"scrypt beyond numbers": of(oidScrypt, costs{salt, 1 << 40, 1 << 40, 1 << 40}),
	} {
		s := Store{Location: file(t, t.TempDir(), "key.pem", content), Password: "secret"}
		if _, err := s.keys(); err == nil || !strings.Contains(err.Error(), "asks for") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, content := range map[string][]byte{"PBKDF2": of(oidPBKDF2, rounds{salt, 100_000}), "scrypt": of(oidScrypt, costs{salt, 1 << 14, 8, 1})} {
		s := Store{Location: file(t, t.TempDir(), "key.pem", content), Password: "secret"}
		if _, err := s.keys(); err == nil || !strings.Contains(err.Error(), "incorrect password") {
			t.Errorf("%s as tools write it: %v", name, err)
		}
	}
	var p12 struct {
		Version  int
		AuthSafe asn1.RawValue
		MAC      struct {
			Digest struct {
				Algorithm pkix.AlgorithmIdentifier
				Digest    []byte
			}
			Salt  []byte
			Count int64
		}
	}
	_, err := asn1.Unmarshal(keyStore(t, me, "PKCS12", "secret"), &p12)
	must(t, err)
	p12.MAC.Count = 1 << 31
	content, err := asn1.Marshal(p12)
	must(t, err)
	s := Store{Location: file(t, t.TempDir(), "key.p12", content), Password: "secret"}
	if _, err := s.keys(); err == nil || !strings.Contains(err.Error(), "asks for") {
		t.Errorf("PKCS12: %v", err)
	}
	if _, err := s.authorities(); err == nil || !strings.Contains(err.Error(), "asks for") {
		t.Errorf("PKCS12 as a trust store: %v", err)
	}
}

// A key store that is damaged while the server runs replaces nothing (secure-T2).
func TestDamagedKeyThatIsReadAgainReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	good := keyStore(t, certtest.New("ca").Issue("server", "localhost"), "PEM", "secret")
	s := Settings{Key: Store{Location: file(t, dir, "key.pem", good), Password: "secret"}, ClientAuth: "none", Reload: true}
	var log bytes.Buffer
	source, err := Open("ssl.", s, true, slog.New(slog.NewTextHandler(&log, nil)))
	must(t, err)
	before := source.read.Load()
	key, rest := pem.Decode(good)
	var parts struct {
		Algorithm asn1.RawValue
		Data      []byte
	}
	_, err = asn1.Unmarshal(key.Bytes, &parts)
	must(t, err)
	parts.Data = parts.Data[:len(parts.Data)-1] // no whole number of blocks
	key.Bytes, err = asn1.Marshal(parts)
	must(t, err)
	file(t, dir, "key.pem", append(pem.EncodeToMemory(key), rest...))
	source.refresh()
	if source.read.Load() != before {
		t.Error("it was taken")
	}
	if !strings.Contains(log.String(), "key.pem") {
		t.Errorf("the log does not name the file: %s", log.String())
	}
	if _, err := Open("ssl.", s, true, slog.Default()); err == nil || !strings.Contains(err.Error(), "ssl.keyStore: ") {
		t.Errorf("a start with it: %v", err)
	}
}

// A PEM store is read completely or not at all: the rest of a damaged block is not skipped.
func TestDamagedBlockOfPEMIsAnError(t *testing.T) {
	dir, one, two := t.TempDir(), certtest.New("one"), certtest.New("two")
	between := "-----\nthe second one\n# -----BEGIN CERTIFICATE-----\n# an old one\n# -----END CERTIFICATE-----\n\r\n"
	both := slices.Concat(one.PEM(), []byte(between), two.PEM())
	read := func(content []byte) ([]*x509.Certificate, error) {
		s := Store{Location: file(t, dir, "trust.pem", content)}
		return s.authorities()
	}
	if all, err := read(both); err != nil || len(all) != 2 {
		t.Fatalf("%d of 2, %v", len(all), err)
	}
	ends := len(one.PEM()) - 1 // where a cut leaves the first block whole
	for i := range both {
		if i < ends || i > ends+len(between)+1 { // the text between has no form
			if all, err := read(both[:i]); err == nil && i < len(both)-1 {
				t.Errorf("of the first %d bytes %d authorities are taken", i, len(all))
			}
			if all, err := read(slices.Concat(both[:i], []byte("!"), both[i+1:])); err == nil && len(all) != 2 && i < len(both)-1 {
				t.Errorf("with byte %d changed %d authorities are taken", i, len(all))
			}
		}
	}
	me := one.Issue("me")
	chain := slices.Concat(me.PEM(), me.KeyPEM(), two.PEM())
	s := Store{Location: file(t, dir, "key.pem", chain[:len(chain)-30])}
	if _, err := s.keys(); err == nil || !strings.Contains(err.Error(), "key.pem: the block of PEM at line") {
		t.Errorf("a chain that is cut short: %v", err)
	}
	s = Store{Location: file(t, dir, "cert.pem", me.PEM()), KeyLocation: file(t, dir, "own.pem", slices.Concat(me.KeyPEM(), two.PEM()[:80]))}
	if _, err := s.keys(); err == nil || !strings.Contains(err.Error(), "own.pem: the block of PEM at line") {
		t.Errorf("a key's file that is cut short: %v", err)
	}
	for name, c := range map[string]struct{ content, want string }{
		"the first one":   {strings.Replace(string(both), "\nM", "\n!", 1), "at line 1 "},
		"no beginning":    {strings.Replace(string(both), "BEGIN", "BEGUN", 1), "at line "},
		"indented":        {strings.Replace(string(both), "-----BEGIN", "  -----BEGIN", 1), "at line 1 "},
		"joined lines":    {string(one.PEM()[:ends]) + string(two.PEM()), "at line 1 "},
		"a byte order":    {"\ufeff" + string(both), "at line "},
		"a cut beginning": {string(one.PEM()) + "-----BEG", "at line "},
	} {
		if _, err := read([]byte(c.content)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A trust store that is damaged while the server runs replaces nothing (secure-T2).
func TestDamagedTrustThatIsReadAgainReplacesNothing(t *testing.T) {
	dir, one, two := t.TempDir(), certtest.New("one"), certtest.New("two")
	both := slices.Concat(one.PEM(), two.PEM())
	var log bytes.Buffer
	source, err := Open("ssl.", Settings{Trust: Store{Location: file(t, dir, "trust.pem", both)}, Reload: true}, false, slog.New(slog.NewTextHandler(&log, nil)))
	must(t, err)
	before := source.read.Load()
	file(t, dir, "trust.pem", both[:len(both)-200])
	source.refresh()
	if source.read.Load() != before {
		t.Error("it was taken")
	}
	if !strings.Contains(log.String(), "trust.pem: the block of PEM at line") {
		t.Errorf("the log does not say where: %s", log.String())
	}
}
