package metrics

import (
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/tally"
	"github.com/conclave-project/conclave/internal/zab"
)

// told is a server whose values the test sets.
type told struct {
	status server.Status
	meters server.Meters
	dir    string
}

func (t *told) Status() server.Status { return t.status }
func (t *told) Meters() server.Meters { return t.meters }
func (t *told) Config() server.Config {
	c := server.Default()
	c.ConnsMax = 123
	return c
}
func (t *told) SnapDir() string { return t.dir }
func (t *told) LogDir() string  { return t.dir + "/none" }
func (t *told) DirBytes(dir string) int64 {
	return map[string]int64{t.SnapDir(): 1111, t.LogDir(): 2222}[dir]
}

// numberAll gives every counter and distribution of a struct a value of its own, from 1001 on;
// a distribution has it as sum, of one number.
func numberAll(v reflect.Value, next *int64) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case !f.CanSet():
		case f.Type() == reflect.TypeFor[tally.Distribution]():
			*next++
			d := tally.Distribution{}
			d.Note(*next, 1)
			f.Set(reflect.ValueOf(d))
		case f.Kind() == reflect.Int64, f.Kind() == reflect.Int:
			*next++
			f.SetInt(*next)
		case f.Kind() == reflect.Struct && f.NumField() > 0:
			numberAll(f, next)
		}
	}
}

// value reads a figure; NaN of none.
func value(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// TestEachNameTellsOfItsOwn gives each figure of a server a value that no other has, and
// looks for it under the name that it belongs to: so two that are swapped are noticed.
func TestEachNameTellsOfItsOwn(t *testing.T) {
	var s told
	next := int64(1000)
	numberAll(reflect.ValueOf(&s.meters).Elem(), &next)
	numberAll(reflect.ValueOf(&s.status.Counts).Elem(), &next)
	s.status.Recovery = server.Recovery{Time: 9 * time.Second, SnapshotTime: 5 * time.Second, LogTime: 3 * time.Second}
	s.status.Ensemble = nil
	s.status.Mode = server.ModeStandalone
	m, counts := &s.meters, &s.status.Counts
	m.Tallies.Written.Note("w", 3, 33)
	m.Tallies.OverQuota.Note("o", 4, 44)
	m.ReadBy = map[string]tally.Named{"r": {Count: 5, Sum: 55}}
	m.Quotas = map[string]server.Quota{"q": {CountMax: 61, BytesMax: 62, Count: 63, Bytes: 64}}
	var ack tally.Distribution
	ack.Note(77, 2)
	m.AckDelays = map[quorum.ID]tally.Distribution{2: ack}
	collector := New(&s, "1")
	collector.PlainAdmin = func() int64 { return 88 }
	collector.SnapshotsLimited = func() int64 { return 89 }
	port := httptest.NewServer(Handler(collector, false, slog.New(slog.DiscardHandler)))
	defer port.Close()
	_, text, got := scrape(t, port)
	sum := func(d *tally.Distribution) float64 { return float64(d.Sum) }
	for key, want := range map[string]float64{
		"snapshot_rate_limited_count": 89, "last_client_response_size": float64(m.ReplyBytes.Last), "max_client_response_size": float64(m.ReplyBytes.Max),
		"min_client_response_size": float64(m.ReplyBytes.Min), "outstanding_tls_handshake": float64(m.Handshaking),
		"non_mtls_remote_conn_count": float64(m.PlainRemote), "non_mtls_local_conn_count": float64(m.PlainLocal),
		`quota_count_limit_per_namespace{key="q"}`: 61, `quota_bytes_limit_per_namespace{key="q"}`: 62,
		`quota_count_usage_per_namespace{key="q"}`: 63, `quota_bytes_usage_per_namespace{key="q"}`: 64,
		"propagation_latency_sum":            sum(&m.Tallies.Decided) + sum(&m.Tallies.Followed),
		"follower_sync_time_sum":             sum(&m.FollowerSyncs),
		"observer_sync_time_sum":             sum(&m.ObserverSyncs),
		"election_time_sum":                  sum(&m.ElectionTimes),
		"diff_count":                         float64(m.Diffs),
		"snap_count":                         float64(m.Snaps),
		"inflight_diff_count_sum":            sum(&m.DiffsUnderWay),
		"inflight_snap_count_sum":            sum(&m.SnapsUnderWay),
		"node_created_watch_count_sum":       sum(&m.Tallies.Created),
		"node_deleted_watch_count_sum":       sum(&m.Tallies.Deleted),
		"node_changed_watch_count_sum":       sum(&m.Tallies.Changed),
		"node_children_watch_count_sum":      sum(&m.Tallies.Children),
		"connection_token_deficit_sum":       sum(&m.Deficits),
		`write_per_namespace_count{key="w"}`: 3, `write_per_namespace_sum{key="w"}`: 33,
		`read_per_namespace_count{key="r"}`: 5, `read_per_namespace_sum{key="r"}`: 55,
		`quota_exceeded_error_per_namespace{key="o"}`: 4,
		"ensemble_auth_success":                       float64(m.OurEnsemble), "ensemble_auth_fail": float64(m.OtherEnsemble),
		"ensemble_auth_skip": float64(m.AnyEnsemble), "revalidate_count": float64(counts.Revalidated),
		"connection_drop_count": float64(m.Dropped), "connection_revalidate_count": float64(m.Resumed),
		"sessionless_connections_expired": float64(m.Expired), "proposal_latency_sum": sum(&m.ProposalDelays),
		"proposal_ack_creation_latency_sum": sum(&m.AckCreations), "commit_propagation_latency_sum": sum(&m.Tallies.Followed),
		"learner_proposal_received_count": float64(m.Proposals), "learner_commit_received_count": float64(m.Commits),
		"startup_txns_load_time_sum": 3000, "startup_snap_load_time_sum": 5000, "dbinittime_sum": 9000,
		"quorum_ack_latency_count": 0, `ack_latency_sum{key="2"}`: 154, `ack_latency_count{key="2"}`: 2,
		"stale_requests": float64(m.StaleRequests), "stale_replies": float64(m.StaleReplies + counts.StaleReplies),
		"insecure_admin_count":                  88,
		"request_throttle_queue_time_ms_sum":    sum(&m.Turns),
		"cnxn_closed_without_zk_server_running": float64(counts.Unserved),
	} {
		if value(t, got[key]) != want {
			t.Errorf("%s is %q, expected %v", key, got[key], want)
		}
	}
	if q := value(t, got[`ack_latency{key="2",quantile="0.9"}`]); q < 77*0.8 || q > 77*1.2 {
		t.Errorf("the quantile of a set is %v in\n%s", q, text)
	}
}

func TestASpaceIsThatOfTheDisk(t *testing.T) {
	s := told{dir: t.TempDir()}
	port := httptest.NewServer(Handler(New(&s, "1"), false, slog.New(slog.DiscardHandler)))
	defer port.Close()
	_, _, got := scrape(t, port)
	for key, want := range map[string]float64{
		"conclave_server_connections_max": 123, `conclave_server_dir_bytes{dir="snapshots"}`: 1111, `conclave_server_dir_bytes{dir="log"}`: 2222,
	} {
		if value(t, got[key]) != want {
			t.Errorf("%s is %q, expected %v", key, got[key], want)
		}
	}
	if bytes, free, known := admin.Space(s.dir); known && (bytes <= 0 || free <= 0 || free > bytes) {
		t.Errorf("%v of %v bytes are free", free, bytes)
	} else if there := value(t, got[`conclave_server_disk_bytes{dir="snapshots"}`]); known && there != bytes {
		t.Errorf("the disk has %v bytes, expected %v", there, bytes)
	}
	if _, there := got[`conclave_server_disk_free_bytes{dir="log"}`]; there {
		t.Error("a directory that is not there is on a disk")
	}
}

// TestLearnersThatSayOneNumberEndNoScrape: strangers may claim any number, and a learner
// that reconnects has two links for a moment.
func TestLearnersThatSayOneNumberEndNoScrape(t *testing.T) {
	s := told{dir: t.TempDir()}
	s.status.Ensemble = new(ensemble.Config)
	s.status.Mode, s.status.ID = server.ModeLeader, 1
	s.status.Learners = []zab.Learner{{Server: 2, InSync: true}, {Server: -7, Observer: true}, {Server: -7, Observer: true}, {Server: 2}}
	port := httptest.NewServer(Handler(New(&s, "1"), false, slog.New(slog.DiscardHandler)))
	defer port.Close()
	status, _, got := scrape(t, port)
	if status != http.StatusOK || value(t, got[`conclave_server_connections_max`]) != 123 {
		t.Errorf("the scrape is answered with %v", status)
	}
}
