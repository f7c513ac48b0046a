package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// incarnationSQL identifies this start of the server and its timeline, which changes with a
// promotion and a restore. It is empty for a standby.
const incarnationSQL = `case when pg_is_in_recovery() then '' else
	substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || '/' ||
	extract(epoch from pg_postmaster_start_time())::text end`

// durableSQL turns synchronous_commit on for its transaction, which is a single statement.
// It does not change a setting that waits for standbys (postgres-P3).
const durableSQL = `set_config('synchronous_commit', case
	when current_setting('synchronous_commit') in ('off', 'local') then 'on'
	else current_setting('synchronous_commit') end, true)`

// statements are the statements for one table. In all of them the row with the empty name
// holds the adopted incarnation.
type statements struct {
	table, channel string

	read, names           string
	insert, update, adopt string
	ddl                   []string
}

// guardSQL is the beginning of both writes.
const guardSQL = `with state as (
	select ` + durableSQL + ` as durable, ` + incarnationSQL + ` as incarnation,
		coalesce((select record->>'incarnation' from @table where name = ''), '') as adopted,
		coalesce($3::text::jsonb->>'incarnation', '') as given,
		coalesce(present.version::text, '') as version, coalesce(present.record->>'nonce', '') as nonce
	from (select 1) as one left join @table as present on present.name = $1::text
)`

// answerSQL is the end of both writes: it returns one row in any case. The notification is
// "VERSION:RECORD NAME", with the record free of spaces, and omitted if the whole would be
// too long for a notification. Versions of this package that do not expect the record take
// it for a part of the version, which is new to them, and read.
const answerSQL = `, news as (select $2 || ':' || replace($3, ' ', chr(92) || 'u0020') || ' ' || $1 as payload)
, told as (select pg_notify(@channel, case when octet_length(payload) < 8000 then payload else $2 || ' ' || $1 end) from written, news)
select (select count(*) from written), incarnation, incarnation = adopted and incarnation = given, version, nonce, (select count(*) from told), durable
from state`

// Parameters: $1 name, $2 new version, $3 record, $4 nonce of the holder, and for an update
// $5 the expected version. If a driver sends a statement twice, the second one finds its
// own version and writes the same again (postgres-P2).
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

// ddl creates the table. A table that is created counts as the first one, so its
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

// identifierBytesMax is PostgreSQL's limit for names.
const identifierBytesMax = 63

// quoteTable quotes a name that may be preceded by a schema.
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

// channel returns the channel on which changes of the table are notified.
func channel(table string) string {
	if table == TableDefault {
		return table
	}
	sum := sha256.Sum256([]byte(table))
	return TableDefault + "_" + hex.EncodeToString(sum[:8])
}
