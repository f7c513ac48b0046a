package sealed

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"context"

	"filippo.io/age"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
)

// memory is a place in memory, whose files a test may change.
type memory struct {
	files map[string][]byte
	fails error // an error of reading, after the first bytes
}

func (m *memory) List(context.Context) ([]string, error) {
	var names []string
	for name := range m.files {
		names = append(names, name)
	}
	return names, nil
}

func (m *memory) Put(_ context.Context, name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	m.files[name] = b.Bytes()
	return nil
}

func (m *memory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	content, there := m.files[name]
	if !there {
		return nil, fs.ErrNotExist
	}
	var r io.Reader = bytes.NewReader(content)
	if m.fails != nil {
		r = io.MultiReader(io.LimitReader(r, int64(len(content)-100)), iotest.ErrReader(m.fails))
	}
	return io.NopCloser(r), nil
}

func (m *memory) Remove(_ context.Context, name string) error {
	delete(m.files, name)
	return nil
}

func key(t *testing.T) *age.X25519Identity {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

var text = strings.Repeat("what nobody else may read; ", 10_000)

func put(t *testing.T, p backup.Place, name string) {
	t.Helper()
	if err := p.Put(t.Context(), name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
		t.Fatal(err)
	}
}

// read lists the files first, as a backup does.
func read(t *testing.T, p backup.Place, name string) (string, error) {
	t.Helper()
	if _, err := p.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := p.Open(t.Context(), name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	return string(content), err
}

func TestFilesAreReadByThoseWhoMay(t *testing.T) {
	m := &memory{files: map[string][]byte{}}
	mine, second, other := key(t), key(t), key(t)
	to := []age.Recipient{mine.Recipient(), second.Recipient()}
	put(t, New(m, to, nil), "a")
	if stored := m.files["a.age"]; len(m.files) != 1 || bytes.Contains(stored, []byte("nobody else")) {
		t.Fatalf("%d files, %d bytes", len(m.files), len(stored))
	}
	for _, identity := range []age.Identity{mine, second} {
		if got, err := read(t, New(m, nil, []age.Identity{other, identity}), "a"); err != nil || got != text {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if _, err := read(t, New(m, nil, []age.Identity{other}), "a"); !errors.Is(err, ErrWrongIdentity) {
		t.Error(err)
	}
	if _, err := read(t, New(m, to, nil), "a"); !errors.Is(err, ErrNoIdentity) {
		t.Error(err)
	}
	names, err := New(m, nil, nil).List(t.Context())
	if err != nil || len(names) != 1 || names[0] != "a" {
		t.Errorf("without keys the names are %q, %v", names, err)
	}
}

// Nothing is added unencrypted to an encrypted backup. Files from before the encryption
// stay readable.
func TestEncryptedBackupStaysEncrypted(t *testing.T) {
	m := &memory{files: map[string][]byte{}}
	mine := key(t)
	put(t, New(m, nil, nil), "old")
	sealed := New(m, []age.Recipient{mine.Recipient()}, []age.Identity{mine})
	if got, err := read(t, sealed, "old"); err != nil || got != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	put(t, sealed, "new")
	open := New(m, nil, []age.Identity{mine})
	if got, err := read(t, open, "new"); err != nil || got != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := open.Put(t.Context(), "b", func(io.Writer) error { return nil }); !errors.Is(err, ErrNoRecipient) {
		t.Error(err)
	}
	for _, name := range []string{"old", "new"} {
		if err := open.Remove(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	if len(m.files) != 0 {
		t.Errorf("%d files are left", len(m.files))
	}
}

func TestWriteThatFailsLeavesNothing(t *testing.T) {
	m := &memory{files: map[string][]byte{}}
	failed := errors.New("failed")
	err := New(m, []age.Recipient{key(t).Recipient()}, nil).Put(t.Context(), "a", func(w io.Writer) error {
		_, _ = io.WriteString(w, text)
		return failed
	})
	if !errors.Is(err, failed) || len(m.files) != 0 {
		t.Errorf("%v, %d files", err, len(m.files))
	}
}

// A changed byte and a missing end are damage; a failure of the place is not.
func TestDamageIsToldFromAPlaceThatFails(t *testing.T) {
	mine := key(t)
	m := &memory{files: map[string][]byte{}}
	p := New(m, []age.Recipient{mine.Recipient()}, []age.Identity{mine})
	put(t, p, "a")
	whole := m.files["a.age"]
	for at := 0; at < len(whole); at += 1 + len(whole)/300 {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		m.files["a.age"] = changed
		if got, err := read(t, p, "a"); err == nil || !vfs.IsCorruption(err) && !errors.Is(err, ErrWrongIdentity) || strings.HasPrefix(text, got) == false {
			t.Fatalf("byte %d: %d bytes, %v", at, len(got), err)
		}
		m.files["a.age"] = whole[:at]
		if _, err := read(t, p, "a"); err == nil || !vfs.IsCorruption(err) {
			t.Fatalf("cut at %d: %v", at, err)
		}
	}
	m.files["a.age"], m.fails = whole, errors.New("the network")
	if _, err := read(t, p, "a"); !errors.Is(err, m.fails) || vfs.IsCorruption(err) {
		t.Errorf("a place that fails: %v", err)
	}
}
