package autobackup

import (
	"fmt"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/conclave-project/conclave/internal/redact"
)

// Settings are the settings of zoo.cfg that begin with conclave.backup.
type Settings struct {
	Place         string        // a directory, or the URL of an object store; "" takes no backups
	Every         time.Duration // time from the beginning of a backup to that of the next
	SnapshotEvery time.Duration // take a new snapshot if the last one is older; 0 means never
	KeepFor       time.Duration // remove what is not needed for the states of this period; 0 keeps everything
	By            By

	Recipients []age.Recipient // empty: nothing is encrypted

	BytesPerSecond int64 // limit for reading the server's files; 0 means none
	FreeBytesMin   int64 // space that is left free on the disk of a directory
}

// By says which server of an ensemble takes the backups.
type By string

// The values of By. As far as this package knows, a directory is on one machine, so each
// server has its own; an object store is shared by all of them.
const (
	ByPlace  By = ""       // each server if Place is a directory, the leader if it is a store
	ByLeader By = "leader" // the server that leads or is standalone
	ByEach   By = "each"
)

// Default returns the settings if zoo.cfg has none.
func Default() Settings {
	return Settings{Every: 10 * time.Minute, SnapshotEvery: 24 * time.Hour, BytesPerSecond: 16 << 20, FreeBytesMin: 1 << 30}
}

// InStore reports whether Place is an object store.
func (s *Settings) InStore() bool { return strings.Contains(s.Place, "://") }

// LeaderAlone reports whether only the leader takes backups.
func (s *Settings) LeaderAlone() bool { return s.By == ByLeader || s.By == ByPlace && s.InStore() }

// String describes in one line, for operators, what will happen.
func (s *Settings) String() string {
	if s.Place == "" {
		return "none: this server takes no backups by itself"
	}
	who := "this server, whatever its role"
	if s.LeaderAlone() {
		who = "this server while it leads, or stands alone"
	}
	keep := "all is kept"
	if s.KeepFor > 0 {
		keep = fmt.Sprintf("what the last %s do not need is removed", plain(s.KeepFor))
	}
	sealed := "in clear text"
	if n := len(s.Recipients); n > 0 {
		sealed = fmt.Sprintf("encrypted for %d recipients", n)
	}
	return fmt.Sprintf("to %s every %s by %s; %s; %s", redact.URL(s.Place), plain(s.Every), who, keep, sealed)
}

// plain formats a duration without units that are zero.
func plain(d time.Duration) string {
	text := d.String()
	if short, zero := strings.CutSuffix(text, "m0s"); zero {
		text = short + "m"
	}
	if short, zero := strings.CutSuffix(text, "h0m"); zero {
		text = short + "h"
	}
	return text
}
