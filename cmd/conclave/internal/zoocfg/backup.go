package zoocfg

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/conclave-project/conclave/cmd/conclave/internal/autobackup"
	"github.com/conclave-project/conclave/internal/vfs"
)

// backupPlace is the key that turns backups on.
const backupPlace = "conclave.backupPlace"

// backupKeys are the keys for the backups that a server takes by itself.
func (r *reader) backupKeys() map[string]setting {
	b := &r.out.Backup
	*b = autobackup.Default()
	return map[string]setting{
		backupPlace: used(text(&b.Place), "none", "the server takes its own backups, as `conclave backup take` does, to this directory, or to the URL of a store: "+
			"`s3://BUCKET/PREFIX`, `azureblob://ACCOUNT/CONTAINER/PREFIX`, with credentials from its environment. See [Backup](operations.md#backup)"),
		"conclave.backupEvery":         used(span(&b.Every, time.Second), "10m", "how often a backup is taken: a number with ms, s, m, h or d"),
		"conclave.backupSnapshotEvery": used(span(&b.SnapshotEvery, 0), "1d", "a newer snapshot is copied when the last one is this old; restoring reads the log from there on; 0 is never"),
		"conclave.backupKeepFor":       used(span(&b.KeepFor, 0), "0", "for how long states can be restored, for example 30d: files that only older states need are removed; 0 keeps everything"),
		"conclave.backupBy": used(r.backupBy, "`each` to a directory, `leader` to a store", "`leader`: only the leader of an ensemble takes backups; `each`: every server does, which is right if each "+
			"has its own directory, and does no harm if they share one"),
		"conclave.backupRecipients":     used(text(&r.recipients), "none", "encrypt for these age recipients (age1...), separated by commas: the server itself then cannot read what it has written"),
		"conclave.backupRecipientsFile": used(text(&r.recipFile), "none", "also encrypt for the recipients in this file, one per line"),
		"conclave.backupBytesPerSecond": used(number(&b.BytesPerSecond, 0, 1<<40), "16777216", "how fast the server's files are read for a backup, which limits its use of CPU and disk; 0 is no limit"),
		"conclave.backupFreeBytesMin":   used(number(&b.FreeBytesMin, 0, 1<<50), "1073741824", "a backup to a directory ends rather than leave less than this free on its disk"),
	}
}

// span reads a duration: a number with a unit, at least least, or 0 if least is 0.
func span(into *time.Duration, least time.Duration) func(string) error {
	return func(v string) error {
		var d time.Duration
		ends := v == "0"
		for _, u := range units {
			ends = ends || strings.HasSuffix(v, u.suffix)
		}
		if !ends || purgeInterval(&d)(v) != nil {
			return fmt.Errorf("%q is not a number and one of ms s m h d, such as 10m", v)
		}
		if d < least {
			return fmt.Errorf("%q is shorter than %s", v, least)
		}
		*into = d
		return nil
	}
}

func (r *reader) backupBy(v string) error {
	by := autobackup.By(v)
	if by != autobackup.ByLeader && by != autobackup.ByEach {
		return fmt.Errorf("%q is not leader or each", v)
	}
	r.out.Backup.By = by
	return nil
}

// backups checks the place of backups and the recipients they are encrypted for.
func (r *reader) backups() {
	b := &r.out.Backup
	if b.Place == "" {
		return
	}
	for _, of := range []struct {
		key  string
		read func() ([]age.Recipient, error)
	}{{"conclave.backupRecipients", r.recipientsOf}, {"conclave.backupRecipientsFile", r.recipientsIn}} {
		some, err := of.read()
		if err != nil {
			r.missing(of.key, fmt.Sprintf("is refused: %v", err))
		}
		b.Recipients = append(b.Recipients, some...)
	}
	if !b.InStore() {
		r.backupDir(b.Place)
	}
}

func (r *reader) recipientsOf() (all []age.Recipient, err error) {
	for name := range strings.SplitSeq(r.recipients, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		some, err := age.ParseRecipients(strings.NewReader(name))
		if err != nil {
			return nil, fmt.Errorf("%q is not an age recipient (age-keygen prints one: age1...)", name)
		}
		all = append(all, some...)
	}
	return all, nil
}

// recipientsBytesMax is the largest size of a file of recipients.
const recipientsBytesMax = 1 << 20

func (r *reader) recipientsIn() ([]age.Recipient, error) {
	if r.recipFile == "" {
		return nil, nil
	}
	content, err := vfs.ReadFile(r.fsys, r.recipFile, recipientsBytesMax)
	if err != nil {
		return nil, err
	}
	return age.ParseRecipients(bytes.NewReader(content))
}

// backupDir checks the directory of backups. If it does not exist yet, the first backup
// creates it.
func (r *reader) backupDir(dir string) {
	if !filepath.IsAbs(dir) {
		r.missing(backupPlace, dir+" is relative: name the directory by its full path, or write the URL of a store")
		return
	}
	c := &r.out.Server
	for _, data := range []string{c.DataDir, c.DataLogDir} {
		if inside, err := filepath.Rel(data, dir); data != "" && err == nil && filepath.IsLocal(inside) {
			r.missing(backupPlace, fmt.Sprintf("is in %s: what destroys the data would destroy the backups", data))
			return
		}
	}
	if info, err := r.fsys.Stat(dir); err == nil && !info.Dir {
		r.missing(backupPlace, dir+" is a file: name a directory, or the URL of a store")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.missing(backupPlace, fmt.Sprintf("cannot be used: %v", err))
	}
}
