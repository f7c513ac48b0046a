package mysql

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// statusSQL is where the server keeps its status. Each server ignores what is meant for the
// other: MariaDB ignores comments for MySQL 5.7 and later, and MySQL ignores comments that
// begin with M.
const statusSQL = `/*!80000 performance_schema.*//*M!100200 information_schema.*/`

// turnSQL distinguishes the periods of a server as the primary, which begin and end with a
// change of read_only. MySQL knows when it was last set, MariaDB only whether it was set
// since the start.
const turnSQL = `/*!80000 , '/', (select group_concat(coalesce(unix_timestamp(setting.set_time), 0) order by setting.variable_name)
	from performance_schema.variables_info as setting where setting.variable_name in ('read_only', 'super_read_only'))*/` +
	`/*M!100200 , '/', (select setting.global_value_origin
	from information_schema.system_variables as setting where setting.variable_name = 'READ_ONLY')*/`

// incarnationSQL identifies this start of this server, and its period as the primary.
// Uptime and unix_timestamp() both count to the begin of the statement, so their difference
// is the second in which the server was started, even if its clock is changed later.
const incarnationSQL = `(select concat(@@server_id, '/', @@hostname, ':', @@port, '/', 
	unix_timestamp() - cast(cast(up.variable_value as unsigned) as signed)` + turnSQL + `)
	from ` + statusSQL + `global_status as up where up.variable_name = 'Uptime')`

// syncSQL makes a read on a node of a Galera cluster wait for the writes that other nodes
// have answered. For MySQL it is a comment.
const syncSQL = `/*M!100200 set statement wsrep_sync_wait = 1 for */`

// takesWritesSQL is the condition of every write (mysql-M5): the connection commits by
// itself, and the server is not a replica. The server itself allows writes to a replica by
// users with READ ONLY ADMIN or SUPER. Setting super_read_only also sets read_only. Its
// values are names in MariaDB 12 and numbers in other versions.
const takesWritesSQL = `@@autocommit = 1 and concat(@@global.read_only) in ('0', 'OFF')`

// mayTakeSQL is the condition of a write that takes an election: the incarnation of the
// server is adopted, and is the one that the candidate has seen.
const mayTakeSQL = `(select count(*) from @table as a where a.name = ''
		and json_unquote(json_extract(a.record, '$.incarnation')) = ` + incarnationSQL + `
		and json_unquote(json_extract(a.record, '$.incarnation')) = ?) > 0`

// Statements with their parameters; @table is replaced. The row with the empty name holds
// the adopted incarnation. An update names its table twice, as what it changes and as what
// it compares: MySQL allows this in a join, but not in a subquery.
const (
	// name, version, record; nonce, incarnation.
	insertSQL = `insert into @table (name, version, record)
select given.* from (select ? as name, ? as version, ? as record) as given
where ` + takesWritesSQL + ` and (? = '' or ` + mayTakeSQL + `)`

	// version, record; name, version expected; nonce, nonce, incarnation.
	updateSQL = `update @table as e left join @table as a on a.name = ''
	and json_unquote(json_extract(a.record, '$.incarnation')) = ` + incarnationSQL + `
set e.version = ?, e.record = ?, e.changed = current_timestamp(3)
where ` + takesWritesSQL + ` and e.name = ? and e.version = ?
	and (? in ('', coalesce(json_unquote(json_extract(e.record, '$.nonce')), ''))
		or json_unquote(json_extract(a.record, '$.incarnation')) = ?)`

	// name.
	readSQL = syncSQL + `select @@global.read_only, @@autocommit, coalesce((select setting.variable_value from ` + statusSQL + `session_variables as setting
	where setting.variable_name = 'binlog_format'), ''), @@global.log_bin,
	` + incarnationSQL + `, coalesce(t.version, ''), coalesce(t.record, '{}')
from (select 1) as one left join @table as t on t.name = ?`

	namesSQL = syncSQL + `select name from @table where name <> ''`

	// version; incarnation.
	adoptSQL = `insert into @table (name, version, record)
select given.* from (select '' as name, ? as version, json_object('incarnation', ` + incarnationSQL + `) as record) as given
where ` + takesWritesSQL + ` and json_unquote(json_extract(given.record, '$.incarnation')) = ?
on duplicate key update version = given.version, record = given.record, changed = current_timestamp(3)`
)

// statements are the statements for one table.
type statements struct {
	table                              string
	read, names, insert, update, adopt string
	ddl                                []string
}

func statementsFor(table string) (*statements, error) {
	quoted, err := quoteTable(table)
	if err != nil {
		return nil, err
	}
	fill := strings.NewReplacer("@table", quoted).Replace
	return &statements{table: table, read: fill(readSQL), names: fill(namesSQL), insert: fill(insertSQL),
		update: fill(updateSQL), adopt: fill(adoptSQL), ddl: ddl(quoted)}, nil
}

// ddl creates the table. A table that is created counts as the first one, so its
// incarnation is adopted with it.
func ddl(quoted string) []string {
	return []string{"create table " + quoted + ` (
	name    varbinary(200) not null primary key,
	version varbinary(32) not null,
	record  json not null,
	changed timestamp(3) not null default current_timestamp(3)
) engine=InnoDB`,
		"insert into " + quoted + " (name, version, record)\n" +
			"values ('', '0', json_object('incarnation', " + incarnationSQL + "))"}
}

// DDL returns the statement that creates the table, for programs that may not do so themselves:
// run it as the table's owner on the primary, then grant select, insert and update on it to the
// user of the candidates. Only operators ever delete a row.
func DDL(table string) (string, error) {
	if table == "" {
		table = TableDefault
	}
	quoted, err := quoteTable(table)
	if err != nil {
		return "", fmt.Errorf("mysql: %w", err)
	}
	return strings.Join(ddl(quoted), ";\n") + ";\n", nil
}

// identifierMax is MySQL's limit for names, in characters.
const identifierMax = 64

// quoteTable quotes a name that may be preceded by a database.
func quoteTable(table string) (string, error) {
	parts := strings.Split(table, ".")
	if len(parts) > 2 {
		return "", fmt.Errorf("table %q: %w", table, errTable)
	}
	for i, part := range parts {
		if part == "" || utf8.RuneCountInString(part) > identifierMax || !utf8.ValidString(part) ||
			strings.ContainsAny(part, "\x00?") || strings.HasSuffix(part, " ") {
			return "", fmt.Errorf("table %q: %w", table, errTable)
		}
		parts[i] = "`" + strings.ReplaceAll(part, "`", "``") + "`"
	}
	return strings.Join(parts, "."), nil
}

// A question mark in a name would be taken for a parameter.
var errTable = errors.New(`not a name of 1 to 64 characters, without question marks, with or without a database; ` +
	`write for example "app.elections"`)
