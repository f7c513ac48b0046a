package login

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/types"
)

// keyTable is a file with the keys of principals. It is read again after a change, for
// instance when keys are rotated.
type keyTable struct {
	path string
	mu   sync.Mutex
	read time.Time // modification time of the file that keys was read from
	size int64
	keys *keytab.Keytab
}

// openKeys reads the key table of a section, so an unreadable one is noticed at the
// start.
func (f *File) openKeys(section string, m *module) (*keyTable, error) {
	t, err := f.nameKeys(section, m)
	if err != nil {
		return nil, err
	}
	if _, err := t.get(); err != nil {
		return nil, f.wrong(section, "%w", err)
	}
	return t, nil
}

// nameKeys returns the key table of a section, not read yet.
func (f *File) nameKeys(section string, m *module) (*keyTable, error) {
	path := strings.TrimPrefix(m.options["keyTab"], "FILE:")
	if !m.on("useKeyTab") || path == "" {
		return nil, f.wrong(section, "want useKeyTab=true and keyTab=\"FILE\": a server has no other way to its keys")
	}
	return &keyTable{path: path}, nil
}

func (t *keyTable) get() (*keytab.Keytab, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err != nil {
		return nil, fmt.Errorf("keyTab: %w", err)
	}
	if t.keys != nil && info.ModTime().Equal(t.read) && info.Size() == t.size {
		return t.keys, nil
	}
	keys, err := load(t.path)
	if err != nil {
		return nil, err
	}
	t.keys, t.read, t.size = keys, info.ModTime(), info.Size()
	return keys, nil
}

func load(path string) (keys *keytab.Keytab, err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on a truncated file
			err = fmt.Errorf("keyTab %s is damaged: %v", path, p)
		}
	}()
	if keys, err = keytab.Load(path); err != nil {
		return nil, fmt.Errorf("keyTab %s: %w", path, err)
	}
	return keys, nil
}

// principal returns the principal of a section.
func (f *File) principal(section string, m *module) (types.PrincipalName, string, error) {
	name, realm, ok := strings.Cut(m.options["principal"], "@")
	if !ok || name == "" || realm == "" || strings.Contains(realm, "@") {
		return types.PrincipalName{}, "", f.wrong(section, "want principal=\"SERVICE/HOST@REALM\", not %q", m.options["principal"])
	}
	return types.NewPrincipalName(1, name), realm, nil // 1: KRB_NT_PRINCIPAL
}

// guarded turns a panic of the library into an error, because anybody can send tokens.
func guarded(step func() ([]byte, bool, error)) (answer []byte, done bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			answer, done, err = nil, false, fmt.Errorf("%w: %v", errToken, p)
		}
	}()
	return step()
}
