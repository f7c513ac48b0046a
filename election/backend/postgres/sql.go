package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// incarnationSQL names this start of the server and its timeline, which a
// promotion and a restore change. A standby has none.
const incarnationSQL = `case when pg_is_in_recovery() then '' else
	substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || '/' ||
	extract(epoch from pg_postmaster_start_time())::text end`

// durableSQL turns synchronous_commit on for the transaction it stands in,
// which is one statement, and leaves what waits for standbys as it is (postgres-P3).
const durableSQL = `set_config('synchronous_commit', case
	when current_setting('synchronous_commit') in ('off', 'local') then 'on'
	else current_setting('synchronous_commit') end, true)`

// statements are those for one table. In all of them the row with the empty
// name holds the adopted incarnation.
type statements struct {
	table, channel string

	read, names           string
	insert, update, adopt string
	ddl                   []string
}

// guardSQL is what both writes begin with.
const guardSQL = `with state as (
	select ` + durableSQL + ` as durable, ` + incarnationSQL + ` as incarnation,
		coalesce((select record->>'incarnation' from @table where name = ''), '') as adopted,
		coalesce($3::text::jsonb->>'incarnation', '') as given,
		coalesce(present.version::text, '') as version, coalesce(present.record->>'nonce', '') as nonce
	from (select 1) as one left join @table as present on present.name = $1::text
)`

// answerSQL is how both writes end: one row, whatever has happened. What is told is
// "VERSION:RECORD NAME", the record without a space, and without it if all of it would
// be more than a notification takes. Versions of this package that do not know the
// record take it for a part of the version, which is news to them, and read.
const answerSQL = `, news as (select $2 || ':' || replace($3, ' ', chr(92) || 'u0020') || ' ' || $1 as payload)
, told as (select pg_notify(@channel, case when octet_length(payload) < 8000 then payload else $2 || ' ' || $1 end) from written, news)
select (select count(*) from written), incarnation, incarnation = adopted and incarnation = given, version, nonce, (select count(*) from told), durable
from state`

// Parameters: $1 name, $2 new version, $3 record, $4 nonce of the holder, and
// for an update $5 the version that is expected. A driver that sends a
// statement twice finds its own version and writes the same again (postgres-P2).
const (
	insertSQL = guardSQL + `, written as (
	insert into @table as t (name, version, record)
	select $1::text, $2::text::uuid, $3::text::jsonb from state
	where incarnation = adopted and incarnation = given or $4::text = ''
	on conflict (name) do update set record = excluded.record where t.version = excluded.version
	returning 1
)` + answerSQL

	updateSQL = guardSQL + `, written as (
	update @table as t set version = $2::text::uuid, record = $3::text::jsonb, changed = clock_timestamp()
	from state
	where t.name = $1::text and t.version in ($5::text::uuid, $2::text::uuid)
		and (incarnation = adopted and incarnation = given or $4::text in ('', coalesce(t.record->>'nonce', '')))
	returning 1
)` + answerSQL

	readSQL = `select pg_is_in_recovery(), ` + incarnationSQL + `, coalesce(t.version::text, ''), coalesce(t.record::text, '{}')
from (select 1) as one left join @table as t on t.name = $1::text`

	adoptSQL = `insert into @table as t (name, version, record)
select '', $2::text::uuid, jsonb_build_object('incarnation', $1::text)
where $1::text = ` + incarnationSQL + ` and ` + durableSQL + ` <> ''
on conflict (name) do update set version = excluded.version, record = excluded.record, changed = clock_timestamp()`
)

func statementsFor(table string) (*statements, error) {
	quoted, err := quoteTable(table)
	if err != nil {
		return nil, err
	}
	s := &statements{table: table, channel: channel(table)}
	fill := strings.NewReplacer("@table", quoted, "@channel", "'"+s.channel+"'").Replace
	s.read, s.insert, s.update, s.adopt = fill(readSQL), fill(insertSQL), fill(updateSQL), fill(adoptSQL)
	s.names = fill(`select name from @table where name <> ''`)
	s.ddl = ddl(quoted)
	return s, nil
}

// ddl makes the table. A table that is made is taken for the first one: its
// incarnation is adopted at once.
func ddl(quoted string) []string {
	fill := strings.NewReplacer("@table", quoted).Replace
	return []string{fill(`create table if not exists @table (
	name    text primary key,
	version uuid not null,
	record  jsonb not null,
	changed timestamptz not null default clock_timestamp()
)`), fill(`insert into @table (name, version, record)
select '', gen_random_uuid(), jsonb_build_object('incarnation', ` + incarnationSQL + `)
on conflict (name) do nothing`)}
}

// DDL returns the statement that creates the table, for programs that may not do so themselves:
// run it as the table's owner, then grant select, insert and update to the role of the
// candidates. Only operators ever delete a row.
func DDL(table string) (string, error) {
	if table == "" {
		table = TableDefault
	}
	quoted, err := quoteTable(table)
	if err != nil {
		return "", err
	}
	return strings.Join(ddl(quoted), ";\n") + ";\n", nil
}

// identifierBytesMax is PostgreSQL's own limit for names.
const identifierBytesMax = 63

// quoteTable quotes a name that may have a schema before it.
func quoteTable(table string) (string, error) {
	parts := strings.Split(table, ".")
	if len(parts) > 2 {
		return "", fmt.Errorf("postgres: table %q: %w", table, errTable)
	}
	for i, part := range parts {
		if part == "" || len(part) > identifierBytesMax || strings.ContainsRune(part, 0) {
			return "", fmt.Errorf("postgres: table %q: %w", table, errTable)
		}
		parts[i] = `"` + strings.ReplaceAll(part, `"`, `""`) + `"`
	}
	return strings.Join(parts, "."), nil
}

var errTable = errors.New(`not a name of 1 to 63 bytes, with or without a schema; write for example "app.elections"`)

// channel is the name under which changes of the table are told.
func channel(table string) string {
	if table == TableDefault {
		return table
	}
	sum := sha256.Sum256([]byte(table))
	return TableDefault + "_" + hex.EncodeToString(sum[:8])
}
