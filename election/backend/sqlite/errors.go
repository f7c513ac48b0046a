package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/record"
)

// Drivers have no common type of errors. But their texts contain SQLite's own messages,
// which have not changed since version 3.

func says(err error, texts ...string) bool {
	if err == nil {
		return false
	}
	message := err.Error()
	for _, text := range texts {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}

// isBusy reports whether another connection held the lock.
func isBusy(err error) bool {
	return !errors.Is(err, election.ErrPermanent) && says(err, "database is locked", "database table is locked", "database schema is locked", "SQLITE_BUSY")
}

func isNoTable(err error) bool { return says(err, "no such table") }

// isNested reports whether a transaction was begun inside another one.
func isNested(err error) bool { return says(err, "within a transaction") }

// isDatabaseMoved reports whether SQLite itself has noticed that the file was removed or
// replaced, which it does with a rollback journal. Not every driver shows the number.
func isDatabaseMoved(err error) bool { return says(err, "readonly database (1032)") }

// explain says what was being done and what to do about it, and marks errors that no retry
// can overcome.
func (s *store) explain(what string, err error) error {
	if err == nil || errors.Is(err, record.ErrConflict) {
		return err
	}
	err = fmt.Errorf("%s table %s: %w", what, s.sql.table, err)
	switch {
	case says(err, "sql: database is closed"):
		return election.Permanent(fmt.Errorf("%w; what is closed stays so (%w)", err, election.ErrClosed))
	case errors.Is(err, errMoved):
	case isBusy(err):
		return fmt.Errorf("%w; somebody holds a transaction open, or is frozen within one", err)
	case says(err, "disk is full"):
		return fmt.Errorf("%w (%w); nobody is elected and no token is lost, free some space", err, election.ErrNoSpace)
	case says(err, "unable to open database file", "out of memory (14)"), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return election.Permanent(fmt.Errorf("%w; its directory has to exist, and this user to write there", err))
	case says(err, "readonly database"):
		return election.Permanent(fmt.Errorf("%w; this user has to write to the file and to its directory; "+
			"if the file was replaced while this program ran, restart that", err))
	case says(err, "file is not a database", "disk image is malformed"):
		return election.Permanent(fmt.Errorf("%w; name another file, or restore this one while no candidate runs", err))
	case says(err, "too many attached databases"):
		return election.Permanent(fmt.Errorf("%w; leave space for one, which shows whether a connection has the database's file open", err))
	case says(err, "no such column", "has no column named"):
		return election.Permanent(fmt.Errorf("%w; the table is another one, choose a name with table=NAME", err))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w; the disk is slow, or somebody holds a transaction open", err)
	}
	return err
}
