package admin

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/zk"
)

// without are the fields of Apache's answers that are missing here, and why.
var without = map[string]string{
	"client_response":                      "replies are not measured one by one",
	"server_stats.client_response_stats":   "replies are not measured one by one",
	"server_stats.fsync_threshold_exceed":  "slow writes are logged",
	"server_stats.non_mtls":                "connections are not counted by their certificates",
	"quorum_address.reachable":             "no server is tried for a report",
	"quorum_address.all_reachable":         "no server is tried for a report",
	"quorum_address.wildcard":              "it says nothing",
	"election_address.reachable":           "no server is tried for a report",
	"election_address.all_reachable":       "no server is tried for a report",
	"election_address.wildcard":            "it says nothing",
	"observers.*.remote_socket_address":    "links are counted as one",
	"observers.*.established":              "links are counted as one",
	"observers.*.queued_packets":           "links are counted as one",
	"observers.*.packets_":                 "links are counted as one",
	"observers.*.requests":                 "links are counted as one",
	"initial_configuration":                "Apache says null in an ensemble without a dynamic file",
	"observer_connection_stat_reset error": "there is nothing to reset, and that is said",
}

// decoded is a report as a client reads it.
func decoded(t *testing.T, s *server.Server, question string) map[string]any {
	t.Helper()
	name, query, _ := strings.Cut(question, "?")
	arguments, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(Commands{Version: "1.2.3", Built: "2026-11-20 22:10 UTC"}.Report(s, name, arguments))
	if err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("%s: %v: %s", question, err, text)
	}
	return answer
}

// at finds a field by its path; * is any element.
func at(value any, path string) (any, bool) {
	first, rest, more := strings.Cut(path, ".")
	var next any
	found := false
	switch v := value.(type) {
	case map[string]any:
		if first == "*" {
			for _, next = range v {
				found = true
				break
			}
		} else {
			next, found = v[strings.ReplaceAll(first, "/", ".")]
		}
	case []any:
		if first == "*" && len(v) > 0 {
			next, found = v[0], true
		}
	}
	if !found || !more {
		return next, found
	}
	return at(next, rest)
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case float64:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// busyEnsemble is an ensemble whose leader has a client with an ephemeral znode and a watch.
func busyEnsemble(t *testing.T) (*inprocess.Ensemble, *server.Server, zk.SessionID) {
	t.Helper()
	e, ctx := startEnsemble(t, false)
	c, err := client.Dial(ctx, e.Addr(e.Leader()), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, _, err := c.Create(ctx, "/e", nil, client.CreateOptions{Mode: zk.Ephemeral}); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.GetW(ctx, "/e"); err != nil {
		t.Fatal(err)
	}
	return e, e.Server(e.Leader()), c.Session().ID
}

// TestReportsHaveTheFieldsOfZooKeeper compares the leader's answers with the fields, and their
// kinds, that the leader of an ensemble of Apache ZooKeeper 3.9.5 has given, with two
// followers, one of them an observer, and a client with an ephemeral znode and a watch.
func TestReportsHaveTheFieldsOfZooKeeper(t *testing.T) {
	_, leader, _ := busyEnsemble(t)
	file, err := os.Open("testdata/apache-commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	answers, used := map[string]map[string]any{}, map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		question, path, kind := f[0], f[1], f[2]
		if answers[question] == nil {
			answers[question] = decoded(t, leader, question)
		}
		excused := ""
		for prefix := range without {
			if strings.HasPrefix(path, prefix) || strings.HasPrefix(question+" "+path, prefix) {
				excused = prefix
			}
		}
		got, found := at(answers[question], path)
		switch {
		case found && kindOf(got) == kind:
		case excused != "":
			used[excused] = true
		case !found:
			t.Errorf("%s: %s is missing in %v", question, path, answers[question])
		default:
			t.Errorf("%s: %s is %v and not a %s", question, path, got, kind)
		}
	}
	for name := range reportOf {
		if answer := decoded(t, leader, name); answer["command"] != reportOf[name].names[0] {
			t.Errorf("%s: %v", name, answer)
		}
	}
	for _, name := range Reports() {
		if name != "set_trace_mask" && name != "system_properties" && name != "votes" && answers[name] == nil { // Java's own are not recorded, and it has no votes
			t.Errorf("%s is not among what was recorded", name)
		}
	}
	for prefix := range without {
		if !used[prefix] {
			t.Errorf("%q is excused for nothing", prefix)
		}
	}
}

// TestReportsTellWhatIsSo compares values.
func TestReportsTellWhatIsSo(t *testing.T) {
	e, leader, session := busyEnsemble(t)
	id := float64(e.Leader())
	text, _ := json.Marshal(session)
	for _, test := range []struct {
		question, path string
		want           any
	}{
		{"leader", "is_leader", true}, {"leader", "leader_id", id}, {"zabstate", "zabstate", "broadcast"},
		{"zabstate", "voting", true}, {"zabstate", "zab_epoch", float64(1)}, {"observers", "synced_observers", float64(1)},
		{"observers", "observers.*.sid", float64(4)}, {"connections", "connections.*.session_id", float64(session)},
		{"dump", "session_id_to_ephemeral_paths." + string(text) + ".*", "/e"}, {"watches_by_path", "path_to_session_ids./e.*", float64(session)},
		{"watches", "session_id_to_watched_paths." + string(text) + ".*", "/e"}, {"watch_summary", "num_total_watches", float64(1)},
		{"is_read_only", "read_only", false}, {"srvr", "server_stats.server_state", "leader"}, {"mntr", "synced_observers", float64(1)},
		{"mntr", "quorum_size", float64(3)}, {"stmk?traceMask=18", "tracemask", float64(18)}, {"gtmk", "tracemask", float64(18)},
		{"stmk?traceMask=x", "error", "setTraceMask requires long traceMask argument, got x"},
		{"no", "error", "Unknown command: no"}, {"no", "command", "no"},
	} {
		got, _ := at(decoded(t, leader, test.question), test.path)
		if test.question == "watches_by_path" {
			got = decoded(t, leader, test.question)["path_to_session_ids"].(map[string]any)["/e"].([]any)[0]
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %s is %v, not %v", test.question, test.path, got, test.want)
		}
	}
	view := decoded(t, leader, "voting_view")["current_config"].(map[string]any)
	if len(view) != 3 || view["4"] != nil {
		t.Errorf("voting_view: %v", view)
	}
	// A follower does not decide when sessions expire, and has no observers.
	follower := e.Server(e.Leader()%3 + 1)
	if d := decoded(t, follower, "dump"); len(d["expiry_time_to_session_ids"].(map[string]any)) != 0 {
		t.Errorf("the follower's dump: %v", d)
	}
	ends := decoded(t, leader, "dump")["expiry_time_to_session_ids"].(map[string]any)
	for at, ids := range ends {
		var ms int64
		if err := json.Unmarshal([]byte(at), &ms); err != nil || !slices.Contains(ids.([]any), any(float64(session))) {
			t.Errorf("the leader's dump: %v", ends)
		}
		if left := time.Until(time.UnixMilli(ms)); left <= 0 || left > time.Minute {
			t.Errorf("the session is said to expire in %v", left)
		}
	}
	if d := decoded(t, follower, "obsr"); d["synced_observers"] != float64(0) {
		t.Errorf("the follower's observers: %v", d)
	}
}

// TestAServerThatServesNobodySaysSo stops the two others.
func TestAServerThatServesNobodySaysSo(t *testing.T) {
	e, ctx := startEnsemble(t, false)
	alone := e.Leader()
	for id := 1; id <= 4; id++ {
		if id != alone {
			if err := e.Stop(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := e.Server(alone)
	if err := e.Await(ctx, func() bool { return s.Role().Mode == server.ModeLooking }); err != nil {
		t.Fatal(err)
	}
	for name, answered := range map[string]bool{"srvr": false, "cons": false, "ruok": false, "mntr": true, "zabstate": true, "envi": true} {
		answer := decoded(t, s, name)
		if said := answer["error"] == any("This ZooKeeper instance is not currently serving requests"); said == answered {
			t.Errorf("%s: %v", name, answer)
		}
	}
	if got := decoded(t, s, "zabstate")["zabstate"]; got != "election" {
		t.Errorf("zabstate: %v", got)
	}
}
