package mysql

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/conclave-project/conclave/election"
	"github.com/go-sql-driver/mysql"
)

// Numbers of errors, which are the same in the references of MySQL and MariaDB.
const (
	databaseDenied      = 1044
	accessDenied        = 1045
	unknownDatabase     = 1049
	tableExists         = 1050
	unknownColumn       = 1054
	duplicateEntry      = 1062
	tableDenied         = 1142
	columnDenied        = 1143
	noSuchTable         = 1146
	unknownVariable     = 1193
	deadlock            = 1213
	readOnlyServer      = 1290
	unknownFunction     = 1305
	accessDeniedSocket  = 1698
	readOnlyTransaction = 1792
	readOnlyMode        = 1836
)

var (
	errReplica = errors.New("this server is read-only, as replicas are; name the primary, or an address that follows it")

	errAutocommit = election.Permanent(errors.New("the connection has autocommit off, so that nothing would be committed; " +
		"leave it on for this pool"))

	errStatement = election.Permanent(errors.New("the server has binlog_format=STATEMENT, by which replicas would judge " +
		"each write for themselves; set binlog_format=ROW or MIXED"))
)

// isNumber reports whether the server returned one of these errors.
func isNumber(err error, numbers ...uint16) bool {
	var refused *mysql.MySQLError
	return errors.As(err, &refused) && slices.Contains(numbers, refused.Number)
}

// explain says what was being done and what to do about it, and marks errors that no retry
// can overcome.
func (s *store) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s table %s: %w", what, s.sql.table, err)
	switch {
	case strings.Contains(err.Error(), "sql: database is closed"):
		return election.Permanent(fmt.Errorf("%w; what is closed stays so (%w)", err, election.ErrClosed))
	case isNumber(err, databaseDenied, tableDenied, columnDenied):
		return election.Permanent(fmt.Errorf("%w; let its owner run\n%s;\n%s;\ngrant select, insert, update on %s to the user of the candidates",
			err, s.sql.ddl[0], s.sql.ddl[1], s.sql.table))
	case isNumber(err, unknownColumn):
		return election.Permanent(fmt.Errorf("%w; the table is another one, choose a name with table=NAME, or let it be\n%s",
			err, s.sql.ddl[0]))
	case isNumber(err, unknownDatabase):
		return election.Permanent(fmt.Errorf("%w; name a database that exists after the slash of the URL", err))
	case isNumber(err, accessDenied, accessDeniedSocket):
		return election.Permanent(fmt.Errorf("%w; credentials come from the URL or from MYSQL_PWD", err))
	case errors.Is(err, mysql.ErrNoTLS):
		return election.Permanent(fmt.Errorf("%w; give it a certificate, or write tls=false where the network is trusted", err))
	case isNumber(err, unknownVariable, unknownFunction):
		return election.Permanent(fmt.Errorf("%w; MySQL 8.0 or MariaDB 10.5 or later is needed, not only its protocol", err))
	case isNumber(err, readOnlyServer, readOnlyMode, readOnlyTransaction):
		return fmt.Errorf("%w: %w", errReplica, err)
	}
	return err
}
