// Package sealed encrypts the files of a backup with age (age-encryption.org/v1).
//
// It wraps a place with keys: the wrapped place reads and writes files as if they were not
// encrypted. An encrypted file has the ending .age: age decrypts it, and gunzip unpacks the
// result.
//
// What always holds:
//
//	sealed-E1  With recipients, everything that is written is encrypted for them alone.
//	           If some files are encrypted already, nothing is added unencrypted.
//	sealed-E2  Names and sizes are visible; of the contents, only their length is.
//	sealed-E3  Writing needs no identity: a server that takes backups cannot read them.
//	sealed-E4  A changed or truncated file is damage, and is distinguished from a place that fails.
package sealed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/conclave-project/conclave/internal/backup"
	"github.com/conclave-project/conclave/internal/vfs"
)

// Errors for keys that are missing or do not fit.
var (
	ErrNoIdentity    = errors.New("the file is encrypted, but no identity is given")
	ErrWrongIdentity = errors.New("none of the given identities decrypts the file")
	ErrNoRecipient   = errors.New("the backup is encrypted, but no recipient is given: new files would be in clear text")
)

const suffix = backup.SealedSuffix

// Place is a place with encrypted files. It must not be used concurrently, and List must be
// called first.
type Place struct {
	under      backup.Place
	recipients []age.Recipient
	identities []age.Identity
	sealed     map[string]bool // the encrypted files, by name without the ending
}

// New returns a place on top of another one. Without recipients it writes unencrypted,
// without identities it cannot read encrypted files.
func New(under backup.Place, recipients []age.Recipient, identities []age.Identity) *Place {
	return &Place{under: under, recipients: recipients, identities: identities, sealed: map[string]bool{}}
}

// Seals reports whether files are written encrypted.
func (p *Place) Seals() bool { return len(p.recipients) > 0 }

// Reads reports whether encrypted files can be read.
func (p *Place) Reads() bool { return len(p.identities) > 0 }

// List implements backup.Place.
func (p *Place) List(ctx context.Context) ([]string, error) {
	stored, err := p.under.List(ctx)
	clear(p.sealed)
	var names []string
	for _, name := range stored {
		if open, sealed := strings.CutSuffix(name, suffix); sealed {
			name = open
			p.sealed[name] = true
		}
		names = append(names, name)
	}
	return names, err
}

func (p *Place) stored(name string) string {
	if p.sealed[name] {
		return name + suffix
	}
	return name
}

// Put implements backup.Place.
func (p *Place) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	if !p.Seals() {
		if len(p.sealed) > 0 {
			return ErrNoRecipient
		}
		return p.under.Put(ctx, name, write)
	}
	err := p.under.Put(ctx, name+suffix, func(w io.Writer) error {
		seal, err := age.Encrypt(w, p.recipients...)
		if err != nil {
			return err
		}
		if err := write(seal); err != nil {
			return err // the end is missing, so nobody takes the file for complete
		}
		return seal.Close()
	})
	if err == nil {
		p.sealed[name] = true
	}
	return err
}

// Open implements backup.Place. It may also return ErrNoIdentity or ErrWrongIdentity.
func (p *Place) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if !p.sealed[name] {
		return p.under.Open(ctx, name)
	}
	if !p.Reads() {
		return nil, fmt.Errorf("%s: %w", name, ErrNoIdentity)
	}
	file, err := p.under.Open(ctx, name+suffix)
	if err != nil {
		return nil, err
	}
	o := &opened{file: file, name: name}
	o.content, err = age.Decrypt(o.stored(), p.identities...)
	var wrong *age.NoIdentityMatchError
	switch {
	case errors.As(err, &wrong):
		err = fmt.Errorf("%s: %w", name, ErrWrongIdentity)
	case err != nil:
		err = o.judge(err)
	default:
		return o, nil
	}
	return nil, errors.Join(err, file.Close())
}

// Remove implements backup.Place.
func (p *Place) Remove(ctx context.Context, name string) error {
	err := p.under.Remove(ctx, p.stored(name))
	if err == nil {
		delete(p.sealed, name)
	}
	return err
}

// opened is a file that is decrypted while it is read.
type opened struct {
	file    io.ReadCloser
	name    string
	content io.Reader
	failed  error // error of the place
}

// stored reads the encrypted bytes, and remembers the error that ended reading.
func (o *opened) stored() io.Reader { return stored{o} }

type stored struct{ *opened }

func (s stored) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}

// Read implements io.Reader.
func (o *opened) Read(p []byte) (int, error) {
	n, err := o.content.Read(p)
	if err != nil && err != io.EOF {
		err = o.judge(err)
	}
	return n, err
}

// judge distinguishes damage from a place that cannot be read (sealed-E4).
func (o *opened) judge(err error) error {
	if o.failed != nil {
		return o.failed
	}
	return &vfs.Corruption{File: o.name + suffix, Expected: "a whole file of age", Found: err.Error(),
		Remedy: "restore from before it, or from another copy of the backup"}
}

// Close implements io.Closer.
func (o *opened) Close() error { return o.file.Close() }
