package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// Field is one field of a report: a name and a value, which encoding/json encodes.
type Field struct {
	Name  string
	Value any
}

// Fields is a JSON object whose fields keep their order.
type Fields []Field

// MarshalJSON implements json.Marshaler.
func (f Fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, field := range f {
		b.WriteByte("{,"[min(i, 1)])
		name, err := json.Marshal(field.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(field.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name, err)
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(f) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func (f *Fields) put(name string, value any) { *f = append(*f, Field{name, value}) }

// A report is a command of ZooKeeper's admin server: a question of an operator that is answered
// with fields. An error is sent to the operator as it is.
type report struct {
	names  []string // the first one is used in the answer
	always bool     // it is answered even while no clients are served
	long   bool     // it lists paths that clients have chosen: see PathsMax
	fields func(Commands, *server.Server, url.Values) (Fields, error)
}

// only adapts a report that has no arguments and cannot fail.
func only(fields func(Commands, *server.Server) Fields) func(Commands, *server.Server, url.Values) (Fields, error) {
	return func(c Commands, s *server.Server, _ url.Values) (Fields, error) { return fields(c, s), nil }
}

// reports has all commands of Apache's admin server except snapshot, which package adminport
// answers, and restore, and also votes, which Apache does not have.
var reports = []report{
	{names: []string{"configuration", "conf", "config"}, fields: only(configuration)},
	{names: []string{"connection_stat_reset", "crst"}, fields: only(func(_ Commands, s *server.Server) Fields { s.ResetConnStats(); return nil })},
	{names: []string{"connections", "cons"}, fields: only(func(_ Commands, s *server.Server) Fields { return connections(s, true) })},
	{names: []string{"dirs"}, fields: only(directories)},
	{names: []string{"dump"}, long: true, fields: only(sessions)},
	{names: []string{"environment", "env", "envi"}, always: true, fields: only(variables)},
	{names: []string{"get_trace_mask", "gtmk"}, always: true, fields: only(mask)},
	{names: []string{"hash"}, fields: only(digests)},
	{names: []string{"initial_configuration", "icfg"}, fields: only(initial)},
	{names: []string{"is_read_only", "isro"}, fields: only(readOnly)},
	{names: []string{"last_snapshot", "lsnp"}, fields: only(lastSnapshot)},
	{names: []string{"leader", "lead"}, fields: leader},
	{names: []string{"monitor", "mntr"}, always: true, fields: only(Commands.monitor)},
	{names: []string{"observer_connection_stat_reset", "orst"}, fields: noObserverFigures},
	{names: []string{"observers", "obsr"}, fields: only(observers)},
	{names: []string{"ruok"}, fields: only(func(Commands, *server.Server) Fields { return nil })},
	{names: []string{"server_stats", "srvr"}, fields: only(Commands.serverStats)},
	{names: []string{"set_trace_mask", "stmk"}, always: true, fields: setMask},
	{names: []string{"stat_reset", "srst"}, fields: only(func(_ Commands, s *server.Server) Fields { s.ResetStats(); return nil })},
	{names: []string{"stats", "stat"}, fields: only(func(c Commands, s *server.Server) Fields {
		return append(c.serverStats(s), connections(s, false)...)
	})},
	{names: []string{"system_properties", "sysp"}, always: true, fields: only(variables)},
	{names: []string{"votes", "vote"}, always: true, fields: only(votes)},
	{names: []string{"voting_view"}, fields: only(votingView)},
	{names: []string{"watch_summary", "wchs"}, fields: only(watchSummary)},
	{names: []string{"watches", "wchc"}, long: true, fields: only(watches)},
	{names: []string{"watches_by_path", "wchp"}, long: true, fields: only(watchesByPath)},
	{names: []string{"zabstate"}, always: true, fields: only(zabState)},
}

// reportOf finds a report by any of its names.
var reportOf = func() map[string]*report {
	byName := map[string]*report{}
	for i := range reports {
		for _, name := range reports[i].names {
			byName[name] = &reports[i]
		}
	}
	return byName
}()

// Reports returns the names of all reports, sorted, one name for each.
func Reports() []string {
	var names []string
	for _, r := range reports {
		names = append(names, r.names[0])
	}
	slices.Sort(names)
	return names
}

// Long reports whether a report may have PathsMax bytes of paths.
func Long(name string) bool {
	r := reportOf[name]
	return r != nil && r.long
}

// Report answers a command of ZooKeeper's admin server with its fields, followed by those that
// end every answer: command, and error, which is null or a text. Like Status it waits until Run
// is running.
func (c Commands) Report(s *server.Server, name string, arguments url.Values) Fields {
	r := reportOf[name]
	if r == nil {
		return ended(nil, name, "Unknown command: "+name)
	}
	if !r.always && s.Role().Mode == server.ModeLooking {
		return ended(nil, name, NotServing)
	}
	fields, err := r.fields(c, s, arguments)
	if err != nil {
		return ended(nil, r.names[0], err.Error())
	}
	return ended(fields, r.names[0], nil)
}

func ended(fields Fields, name string, problem any) Fields {
	return append(fields, Fields{{"command", name}, {"error", problem}}...)
}

func configuration(_ Commands, s *server.Server) Fields {
	c := s.Config()
	port, _ := strconv.Atoi(portOf(s.Addr()))
	return Fields{
		{"client_port", port}, {"data_dir", s.SnapDir()}, {"data_log_dir", s.LogDir()},
		{"tick_time", c.TickTime.Milliseconds()}, {"max_client_cnxns", c.ConnsPerIPMax},
		{"min_session_timeout", c.SessionMin.Milliseconds()}, {"max_session_timeout", c.SessionMax.Milliseconds()},
		{"server_id", s.Status().ID}, {"client_port_listen_backlog", -1},
	}
}

// connections lists the clients of both ports, with everything known about each, or in short.
func connections(s *server.Server, full bool) Fields {
	plain, secure := []Fields{}, []Fields{}
	for _, c := range s.Conns() {
		info := connection(&c, full)
		if c.Secure {
			secure = append(secure, info)
		} else {
			plain = append(plain, info)
		}
	}
	return Fields{{"connections", plain}, {"secure_connections", secure}}
}

func connection(c *server.Conn, full bool) Fields {
	info := Fields{
		{"remote_socket_address", c.Remote.String()}, {"interest_ops", interest(c)},
		{"outstanding_requests", c.Queued}, {"packets_received", c.Received}, {"packets_sent", c.Sent},
	}
	if !full {
		return info
	}
	now, l := time.Now(), c.LatencyMs
	return append(info, Fields{
		{"session_id", c.Session}, {"last_operation", opCode(c)}, {"established", now.Add(-c.Since).UnixMilli()},
		{"session_timeout", c.TimeoutMs}, {"last_cxid", c.LastXid}, {"last_zxid", c.LastZxid},
		{"last_response_time", responded(c, now)}, {"last_latency", l.Last}, {"min_latency", l.Min},
		{"avg_latency", l.Avg}, {"max_latency", l.Max},
	}...)
}

func directories(_ Commands, s *server.Server) Fields {
	return Fields{{"datadir_size", s.DirBytes(s.SnapDir())}, {"logdir_size", s.DirBytes(s.LogDir())}}
}

// sessions lists the sessions whose expiry this server decides, by the time of expiry, and the
// ephemerals of all sessions.
func sessions(_ Commands, s *server.Server) Fields {
	d := s.Dump()
	own := d.Local
	if mode := s.Role().Mode; mode == server.ModeLeader || mode == server.ModeStandalone {
		own = slices.Concat(d.Buckets, d.Local)
	}
	now, ends := time.Now().UnixMilli(), map[int64][]zk.SessionID{}
	for _, b := range own {
		at := now + b.EndsMs - d.NowMs
		ends[at] = append(ends[at], b.Sessions...)
	}
	return leftOut(Fields{{"expiry_time_to_session_ids", ends}, {"session_id_to_ephemeral_paths", d.Ephemerals}}, d.Left)
}

// variables returns the fields of envi. There are no properties of a Java process in addition.
func variables(c Commands, _ *server.Server) Fields {
	fields := Fields{{"zookeeper.version", c.version()}}
	for _, kv := range environment() {
		fields.put(kv[0], kv[1])
	}
	return fields
}

func mask(_ Commands, s *server.Server) Fields { return Fields{{"tracemask", s.TraceMask()}} }

func setMask(c Commands, s *server.Server, arguments url.Values) (Fields, error) {
	text := arguments.Get("traceMask")
	mask, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !arguments.Has("traceMask"):
		return nil, errors.New("setTraceMask requires long traceMask argument")
	case err != nil:
		return nil, fmt.Errorf("setTraceMask requires long traceMask argument, got %s", text)
	}
	s.SetTraceMask(mask)
	return Fields{{"tracemask", mask}}, nil
}

func digests(_ Commands, s *server.Server) Fields {
	all := []Fields{}
	for _, d := range s.Digests() {
		all = append(all, Fields{{"zxid", d.Zxid}, {"digest", d.Value}, {"digest_version", digestVersion}})
	}
	return Fields{{"digests", all}}
}

// digestVersion is the version of the digests that ZooKeeper 3.9 and this server compute.
const digestVersion = 2

// initial returns the configuration with which the server was started.
func initial(_ Commands, s *server.Server) Fields {
	text := ""
	if config := s.Config().Ensemble; config != nil {
		text = strings.Join(config.Lines(), "\n")
	}
	return Fields{{"initial_configuration", text}}
}

func readOnly(_ Commands, s *server.Server) Fields {
	return Fields{{"read_only", s.Role().Mode == server.ModeReadOnly}}
}

func lastSnapshot(_ Commands, s *server.Server) Fields {
	zxid, at := int64(-1), int64(-1)
	if st := s.Status(); !st.SnapshotAt.IsZero() {
		zxid, at = int64(st.SnapshotLast), st.SnapshotAt.Unix()
	}
	return Fields{{"zxid", strconv.FormatUint(uint64(zxid), 16)}, {"timestamp", at}}
}

func leader(_ Commands, s *server.Server, _ url.Values) (Fields, error) {
	st := s.Status()
	if st.Ensemble == nil {
		return nil, errors.New("server is not initialized") // ZooKeeper's text for a standalone server
	}
	host := ""
	if m := st.Ensemble.Member(st.Leader); m != nil && len(m.Quorum) > 0 {
		host = m.Quorum[0].Host
	}
	return Fields{{"is_leader", st.Mode == server.ModeLeader}, {"leader_id", st.Leader}, {"leader_ip", host}}, nil
}

func (c Commands) monitor(s *server.Server) Fields {
	fields := c.figures(s)
	for i, f := range fields {
		if d, ok := f.Value.(decimal); ok {
			fields[i].Value = float64(d)
		}
	}
	return fields
}

// noObserverFigures refuses a command that would have no effect.
func noObserverFigures(Commands, *server.Server, url.Values) (Fields, error) {
	return nil, errors.New("nothing is counted for each observer here, and there is nothing to reset")
}

// observers lists the observers that this server serves, as a leader or as an observer master.
func observers(_ Commands, s *server.Server) Fields {
	st := s.Status()
	all, synced := []Fields{}, 0
	for _, l := range st.Learners {
		if !l.Observer {
			continue
		}
		if l.Stage == zab.LearnerServing {
			synced++
		}
		all = append(all, Fields{{"sid", l.Server}, {"stage", l.Stage.String()}, {"last_zxid", l.Queued}, {"silent_ms", l.SilentMs}})
	}
	return Fields{{"synced_observers", synced}, {"observers", all}}
}

func (c Commands) serverStats(s *server.Server) Fields {
	st := s.Status()
	sizes := func(z server.Sizes) Fields {
		return Fields{{"last_buffer_size", z.Last}, {"min_buffer_size", z.Min}, {"max_buffer_size", z.Max}}
	}
	fields := Fields{{"version", c.version()}, {"read_only", st.Mode == server.ModeReadOnly}, {"server_stats", Fields{
		{"packets_sent", st.Sent}, {"packets_received", st.Received}, {"max_latency", st.Latency.MaxMs},
		{"min_latency", st.Latency.MinMs}, {"avg_latency", st.Latency.AvgMs}, {"server_state", st.Mode},
		{"outstanding_requests", st.Outstanding}, {"last_processed_zxid", st.Last},
		{"data_dir_size", s.DirBytes(s.SnapDir())}, {"log_dir_size", s.DirBytes(s.LogDir())},
		{"num_alive_client_connections", st.Connections}, {"uptime", st.Uptime.Milliseconds()},
		{"auth_failed_count", st.AuthFailed}, {"provider_null", false},
	}}}
	if st.Mode == server.ModeLeader {
		fields.put("proposal_stats", sizes(st.ProposalBytes))
	}
	fields.put("ports_failed", append([]string{}, st.PortsFailed...))
	fields.put("node_count", st.Znodes+1) // the root counts twice, because ZooKeeper stores it under two names
	return fields
}

// votingView lists the participants of the configuration in force, by id.
func votingView(_ Commands, s *server.Server) Fields {
	all := map[quorum.ID]Fields{}
	if config := s.Status().Ensemble; config != nil {
		for _, m := range config.Members {
			if m.Observer {
				continue
			}
			client := ""
			if m.Client.Port != 0 {
				client = m.Client.String()
			}
			all[m.ID] = Fields{
				{"server_addresses", texts(m.Quorum)}, {"election_addresses", texts(m.Election)},
				{"client_address", client}, {"learner_type", "participant"},
			}
		}
	}
	return Fields{{"current_config", all}}
}

// several returns what ZooKeeper shows of the addresses of a server, except which of them it
// has found to answer.
func several(addresses []ensemble.Address) Fields {
	hosts, ports := []string{}, []uint16{}
	for _, a := range addresses {
		hosts, ports = append(hosts, a.Host), append(ports, a.Port)
	}
	all := texts(addresses)
	one := ""
	if len(all) > 0 {
		one = all[0]
	}
	return Fields{{"empty", len(all) == 0}, {"all_addresses", all}, {"all_ports", ports}, {"all_host_strings", hosts}, {"one", one}}
}

func texts(addresses []ensemble.Address) []string {
	all := []string{}
	for _, a := range addresses {
		all = append(all, a.String())
	}
	return all
}

func watchSummary(_ Commands, s *server.Server) Fields {
	c := s.Watches().Counts()
	return Fields{{"num_connections", c.Conns}, {"num_paths", c.Paths}, {"num_total_watches", c.Data}}
}

func watches(_ Commands, s *server.Server) Fields {
	of, paths := s.SessionOf(), map[zk.SessionID][]string{}
	byConn, left := s.Watches().ByConn()
	for id, watched := range byConn {
		paths[of[id]] = watched
	}
	return leftOut(Fields{{"session_id_to_watched_paths", paths}}, left)
}

func watchesByPath(_ Commands, s *server.Server) Fields {
	of, ids := s.SessionOf(), map[string][]zk.SessionID{}
	byPath, left := s.Watches().ByPath()
	for path, conns := range byPath {
		for _, id := range conns {
			ids[path] = append(ids[path], of[id])
		}
	}
	return leftOut(Fields{{"path_to_session_ids", ids}}, left)
}

// leftOut adds a field, which Apache does not have, if a report had no space for some watches
// or ephemerals.
func leftOut(fields Fields, count int) Fields {
	if count > 0 {
		fields.put("left_out", count)
	}
	return fields
}

func zabState(_ Commands, s *server.Server) Fields {
	st := s.Status()
	if st.Ensemble == nil {
		return Fields{{"voting", false}, {"zabstate", ""}}
	}
	fields := Fields{{"myid", st.ID}, {"is_leader", st.Mode == server.ModeLeader}}
	if m := st.Ensemble.Member(st.ID); m != nil {
		fields.put("quorum_address", several(m.Quorum))
		fields.put("election_address", several(m.Election))
		fields.put("client_address", m.Client.String())
	}
	_, phase, found := strings.Cut(st.Phase, " - ")
	if !found {
		phase = "election"
	}
	return append(fields, Fields{
		{"voting", st.Ensemble.Participants().Has(st.ID)}, {"last_zxid", st.Last.String()},
		{"zab_epoch", st.Last.Epoch()}, {"zab_counter", st.Last.Counter()}, {"zabstate", phase},
	}...)
}
