package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/zk"
	"github.com/spf13/cobra"
)

// held is one session as JSON. What no server reports is left out.
type held struct {
	Session    string `json:"session"`
	TimeoutMs  int64  `json:"timeoutMs,omitempty"`
	Client     string `json:"client,omitempty"` // the address of its connection
	Server     string `json:"server,omitempty"` // the server that has the connection
	Since      string `json:"since,omitempty"`  // of the connection
	Received   *int64 `json:"received,omitempty"`
	Ephemerals int    `json:"ephemerals"`

	queued, averageMs *int64 // unanswered requests of that connection, and how long one takes
	last              string // its last operation
}

// dumped is the answer to dump: sessions, with timeouts if they are reported, and
// ephemerals.
type dumped struct {
	sessions   map[zk.SessionID]int64
	ephemerals map[zk.SessionID][]string
	left       int // ephemerals that did not fit into the list
}

// lacks returns an error that says what is missing; nil if nothing is.
func (d *dumped) lacks() error {
	if d.left == 0 {
		return nil
	}
	return fmt.Errorf("%d ephemerals are left out: a server lists %d MiB of paths at most", d.left, admin.PathsMax>>20)
}

// dump asks for sessions and ephemerals: the leader, or else the first server that answers.
func (i *inspector) dump(ctx context.Context) (dumped, error) {
	var first error
	for _, s := range i.servers {
		d := dumped{sessions: map[zk.SessionID]int64{}, ephemerals: map[zk.SessionID][]string{}}
		err := i.ask(ctx, s.Server, question{"dump", "dump", d.text, d.json})
		if err == nil && first != nil && len(d.sessions) == 0 && len(d.ephemerals) == 0 {
			continue // the admin port of a learner does not report sessions
		}
		if err == nil {
			return d, nil
		}
		if first == nil {
			first = err
		}
	}
	return dumped{}, first
}

// text parses the sections of the four-letter word.
func (d *dumped) text(answer string) {
	section, owner := "", zk.SessionID(0)
	for line := range strings.Lines(answer) {
		line = strings.TrimRight(line, "\n")
		if count, ends := strings.CutPrefix(line, admin.LeftOut); ends {
			_, _ = fmt.Sscan(count, &d.left)
			continue
		}
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "\t"), "\t")
		id, err := sessionNumber(strings.TrimSuffix(name, ":"))
		switch {
		case !strings.HasPrefix(line, "\t") && (strings.HasSuffix(line, "dump:") || strings.Contains(line, "Session")):
			section = line
		case strings.HasPrefix(section, "Connections"):
		case strings.HasPrefix(section, "Sessions with Ephemerals") && strings.HasPrefix(line, "\t"):
			d.ephemerals[owner] = append(d.ephemerals[owner], strings.TrimPrefix(line, "\t"))
		case err != nil:
		case strings.HasPrefix(section, "Sessions with Ephemerals"):
			owner = id
		default:
			d.sessions[id], _ = strconv.ParseInt(strings.TrimSuffix(rest, "ms"), 10, 64)
		}
	}
}

// json parses the fields of the admin server.
func (d *dumped) json(fields map[string]json.RawMessage) error {
	var ends map[string][]json.RawMessage
	var ephemerals map[string][]string
	if err := field(fields, "expiry_time_to_session_ids", &ends); err != nil {
		return err
	}
	if err := field(fields, "session_id_to_ephemeral_paths", &ephemerals); err != nil {
		return err
	}
	for _, ids := range ends {
		for _, text := range ids {
			id, err := sessionNumber(string(text))
			if err != nil {
				return err
			}
			d.sessions[id] = 0
		}
	}
	for text, paths := range ephemerals {
		id, err := sessionNumber(text)
		if err != nil {
			return err
		}
		slices.Sort(paths)
		d.ephemerals[id] = paths
	}
	if _, some := fields["left_out"]; some {
		return field(fields, "left_out", &d.left)
	}
	return nil
}

// connected has the sessions with a connection, by their ids.
type connected map[zk.SessionID]held

// connections asks all servers for their connections. It warns about servers that do not
// report them.
func (i *inspector) connections(ctx context.Context) connected {
	parts := make([]connected, len(i.servers))
	problems := i.each(ctx, func(at int, server string) question {
		parts[at] = connected{}
		return question{"cons", "connections",
			func(answer string) { parts[at].text(server, answer) },
			func(fields map[string]json.RawMessage) error { return parts[at].json(server, fields) }}
	})
	all := connected{}
	for at, part := range parts {
		maps.Copy(all, part)
		if problems[at] != nil {
			fmt.Fprintf(i.remarks, "conclave: addresses of clients are missing: %v\n", problems[at])
		}
	}
	return all
}

// text parses lines " /ADDRESS[1](key=value,...)".
func (c connected) text(server, answer string) {
	for line := range strings.Lines(answer) {
		address, rest, ok := strings.Cut(strings.TrimSpace(line), "[")
		_, rest, figures := strings.Cut(rest, "(")
		if !ok || !figures {
			continue
		}
		one := map[string]string{}
		for part := range strings.SplitSeq(strings.TrimRight(rest, ")"), ",") {
			key, value, _ := strings.Cut(part, "=")
			one[key] = value
		}
		since, _ := strconv.ParseInt(one["est"], 10, 64)
		timeout, _ := strconv.ParseInt(one["to"], 10, 64)
		c.put(one["sid"], address, since, held{Server: server, TimeoutMs: timeout, Received: integer(one["recved"]),
			queued: integer(one["queued"]), averageMs: integer(one["avglat"]), last: one["lop"]})
	}
}

// json parses the fields of the admin server.
func (c connected) json(server string, fields map[string]json.RawMessage) error {
	for _, name := range []string{"connections", "secure_connections"} {
		var all []struct {
			Address  string          `json:"remote_socket_address"`
			Session  json.RawMessage `json:"session_id"`
			Timeout  int64           `json:"session_timeout"`
			Since    any             `json:"established"` // Apache's is a text
			Received *int64          `json:"packets_received"`
			Queued   *int64          `json:"outstanding_requests"`
			Average  *int64          `json:"avg_latency"`
			Last     string          `json:"last_operation"`
		}
		if err := field(fields, name, &all); err != nil {
			return err
		}
		for _, one := range all {
			since, _ := one.Since.(float64)
			c.put(string(one.Session), one.Address, int64(since), held{Server: server, TimeoutMs: one.Timeout, Received: one.Received,
				queued: one.Queued, averageMs: one.Average, last: one.Last})
		}
	}
	return nil
}

// put records what is known about one connection.
func (c connected) put(session, address string, sinceMs int64, one held) {
	id, err := sessionNumber(session)
	if err != nil || id == 0 {
		return // a connection without a session, such as the one that asks
	}
	one.Session, one.Client = id.String(), address[strings.LastIndexByte(address, '/')+1:]
	if sinceMs > 0 {
		one.Since = cli.Time(sinceMs)
	}
	c[id] = one
}

func newSessions() *cobra.Command {
	v := &inspecting{}
	c := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions of an ensemble, and where their clients are",
		Example: `  conclave sessions
  conclave sessions --server zk1:2181 -o json`,
		Long: `Lists all sessions: the timeout, the address of the client, the server that it is
connected to and since when, how many requests it has sent on that connection,
and how many ephemeral znodes it has. A session without a connection expires
unless its client comes back.

The servers are asked for dump and cons, by four-letter word or on their admin
ports. One of the two ways must be allowed in zoo.cfg: 4lw.commands.whitelist or
admin.enableServer=true. Without cons, the addresses are missing.`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			i, p, err := v.open(c)
			if err != nil {
				return err
			}
			told, err := i.dump(c.Context())
			if err != nil {
				return err
			}
			all := told.held(i.connections(c.Context()))
			return errors.Join(p.Answer(all, func(w io.Writer) error { return sessionTable(w, all) }), told.lacks())
		},
	}
	v.add(c)
	return c
}

// held returns all reported sessions, in the order of their ids.
func (d *dumped) held(connections connected) []held {
	ids := map[zk.SessionID]bool{}
	for id := range d.sessions {
		ids[id] = true
	}
	for id := range d.ephemerals {
		ids[id] = true
	}
	for id := range connections { // local sessions, or sessions that began after dump
		ids[id] = true
	}
	all := []held{}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		one, ok := connections[id]
		if !ok {
			one = held{Session: id.String(), TimeoutMs: d.sessions[id]}
		}
		one.Ephemerals = len(d.ephemerals[id])
		all = append(all, one)
	}
	return all
}

func sessionTable(w io.Writer, all []held) error {
	rows := make([][]string, len(all))
	for i, s := range all {
		timeout, received := "", ""
		if s.TimeoutMs > 0 {
			timeout = (time.Duration(s.TimeoutMs) * time.Millisecond).String()
		}
		if s.Received != nil {
			received = strconv.FormatInt(*s.Received, 10)
		}
		rows[i] = []string{s.Session, dash(timeout), dash(s.Client), dash(s.Server), dash(s.Since), dash(received), strconv.Itoa(s.Ephemerals)}
	}
	return cli.Table(w, []string{"SESSION", "TIMEOUT", "CLIENT", "SERVER", "SINCE", "REQUESTS", "EPHEMERALS"}, rows)
}

// owned is one ephemeral znode as JSON.
type owned struct {
	Path    string `json:"path"`
	Session string `json:"session"`
}

func newEphemerals() *cobra.Command {
	v := &inspecting{}
	var session string
	c := &cobra.Command{
		Use:   "ephemerals [PREFIX]",
		Short: "List ephemeral znodes and the sessions that own them",
		Example: `  conclave ephemerals /app
  conclave ephemerals --session 0x100a2b3c4d50000`,
		Long: `Lists the ephemeral znodes whose paths begin with the characters of PREFIX, in
the order of their paths, and the session that owns each. Paths are those of the
servers, even if a chroot is given.

A server is asked for dump, by four-letter word or on its admin port. One of the
two ways must be allowed in zoo.cfg: 4lw.commands.whitelist or
admin.enableServer=true. If neither is, conclave ls -r -l shows the owners.`,
		Args: takes(1),
		RunE: func(c *cobra.Command, args []string) error {
			wanted, err := wantedSession(session)
			if err == nil {
				err = aboveZnodes(args)
			}
			if err != nil {
				return err
			}
			i, p, err := v.open(c)
			if err != nil {
				return err
			}
			told, err := i.dump(c.Context())
			if err != nil {
				return err
			}
			all := []owned{}
			for id, paths := range told.ephemerals {
				for _, path := range paths {
					if (session == "" || id == wanted) && (len(args) == 0 || strings.HasPrefix(path, args[0])) {
						all = append(all, owned{path, id.String()})
					}
				}
			}
			sortBy(all, func(a, b owned) int { return strings.Compare(a.Path, b.Path) })
			err = p.Answer(all, func(w io.Writer) error {
				rows := make([][]string, len(all))
				for i, one := range all {
					rows[i] = []string{one.Session, one.Path}
				}
				return cli.Table(w, []string{"SESSION", "PATH"}, rows)
			})
			return errors.Join(err, told.lacks())
		},
	}
	v.add(c)
	c.Flags().StringVar(&session, "session", "", "only those of this session, as 0x100...")
	return c
}

// aboveZnodes returns, for a given PREFIX, the text that no path begins with it.
func aboveZnodes(args []string) error {
	if len(args) > 0 && !strings.HasPrefix(args[0], "/") {
		return cli.Usage("write for example /app", "no path begins with %q: each begins with /", args[0])
	}
	return nil
}

// wantedSession parses --session; 0 for none.
func wantedSession(text string) (zk.SessionID, error) {
	if text == "" {
		return 0, nil
	}
	id, err := sessionNumber(text)
	if err != nil {
		return 0, cli.Usage("conclave sessions lists the ids", "--session: %w", err)
	}
	return id, nil
}
