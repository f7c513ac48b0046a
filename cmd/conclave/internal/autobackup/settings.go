package autobackup

import (
	"fmt"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/conclave-project/conclave/internal/redact"
)

// Settings are those of zoo.cfg that begin with conclave.backup.
type Settings struct {
	Place         string        // a directory, or the URL of a store; "" takes no backups
	Every         time.Duration // between the beginnings of two
	SnapshotEvery time.Duration // a newer snapshot when the last is so old; 0 is never
	KeepFor       time.Duration // what no state of the last so long needs is removed; 0 keeps all
	By            By

	Recipients []age.Recipient // none: nothing is encrypted

	BytesPerSecond int64 // that are read of the server's files; 0 is no limit
	FreeBytesMin   int64 // that stay free on the disk of a directory
}

// By is which server of an ensemble takes the backups.
type By string

// The servers. A directory is one of this machine, as far as anybody knows here, so each
// server has its own; a store is one for all of them.
const (
	ByPlace  By = ""       // each server to a directory, the leader to a store
	ByLeader By = "leader" // the server that leads, or stands alone
	ByEach   By = "each"
)

// Default returns what counts where zoo.cfg says nothing.
func Default() Settings {
	return Settings{Every: 10 * time.Minute, SnapshotEvery: 24 * time.Hour, BytesPerSecond: 16 << 20, FreeBytesMin: 1 << 30}
}

// InStore reports whether the place is an object store.
func (s *Settings) InStore() bool { return strings.Contains(s.Place, "://") }

// LeaderAlone reports whether the leader alone takes them.
func (s *Settings) LeaderAlone() bool { return s.By == ByLeader || s.By == ByPlace && s.InStore() }

// String says what will happen, in a line for operators.
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

// plain is a time without units that are zero.
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
