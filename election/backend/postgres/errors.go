package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/election"
)

// SQLSTATE codes, as in PostgreSQL's appendix A.
const (
	undefinedTable        = "42P01"
	undefinedColumn       = "42703"
	datatypeMismatch      = "42804"
	invalidColumnRef      = "42P10"
	duplicateTable        = "42P07"
	duplicateObject       = "42710"
	uniqueViolation       = "23505"
	serializationFailure  = "40001"
	readOnlyTransaction   = "25006"
	insufficientPrivilege = "42501"
	invalidSchema         = "3F000"
	invalidCatalog        = "3D000"
	invalidPassword       = "28P01"
	invalidAuthorization  = "28000"
	undefinedFunction     = "42883"
)

// sqlState returns the code in an error of the server; it knows pgx, lib/pq and others.
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

func isState(err error, codes ...string) bool {
	return err != nil && slices.Contains(codes, sqlState(err))
}

// explain says what was being done and what to do about it, and marks errors that no retry
// can overcome.
func (s *store) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s table %s: %w", what, s.sql.table, err)
	if text := err.Error(); strings.Contains(text, "sql: database is closed") || strings.Contains(text, "closed pool") {
		return election.Permanent(fmt.Errorf("%w; what is closed stays so (%w)", err, election.ErrClosed))
	}
	switch sqlState(err) {
	case insufficientPrivilege:
		return election.Permanent(fmt.Errorf("%w; let its owner run\n%s;\ngrant select, insert, update on %s to the role of the candidates",
			err, s.sql.ddl[0], s.sql.table))
	case undefinedColumn, datatypeMismatch, invalidColumnRef:
		return election.Permanent(fmt.Errorf("%w; the table is another one, choose a name with table=NAME, or let it be\n%s",
			err, s.sql.ddl[0]))
	case invalidSchema:
		return election.Permanent(fmt.Errorf("%w; make the schema, or choose another with table=SCHEMA.NAME", err))
	case invalidCatalog:
		return election.Permanent(fmt.Errorf("%w; name a database that exists after the slash of the URL", err))
	case invalidPassword, invalidAuthorization:
		return election.Permanent(fmt.Errorf("%w; credentials come from the URL, PGPASSWORD or ~/.pgpass", err))
	case undefinedFunction:
		return election.Permanent(fmt.Errorf("%w; PostgreSQL 13 or later is needed, not only its protocol", err))
	case readOnlyTransaction:
		return fmt.Errorf("%w: %w", errStandby, err)
	}
	return err
}
