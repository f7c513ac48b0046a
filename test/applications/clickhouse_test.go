//go:build linux && applications

package applications

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/zk"
)

// A clickhouse is three replicas of a table, below a chroot, whose znodes have ACLs of a user and a password. Each insert
// waits until two of them have it. A replica that loses its connection takes a new session.
type clickhouse struct {
	*scene
	zk       *client.Client
	replicas []*clickhouseReplica
	work     sync.WaitGroup
	stop     chan struct{}
	mutated  int // how many rows were there to change and to remove

	mu      sync.Mutex
	acked   []int
	refused map[string]int // why inserts failed
	longest time.Duration
}

type clickhouseReplica struct {
	name      string
	dir       string
	http, tcp int
	peers     int // the port for other replicas
	frozen    atomic.Bool
	program   *program
}

const (
	clickhouseRoot   = "/clickhouse"
	clickhouseTable  = clickhouseRoot + "/tables/events"
	clickhouseServer = "/usr/sbin/clickhouse-server" // Debian's, which an ordinary user's PATH does not have
)

// TestClickHouse kills replicas, the one that leads them, and leaders of the ensemble while rows are inserted.
func TestClickHouse(t *testing.T) {
	c := newClickHouse(t)
	c.step("start", c.startAll)
	c.startWork()
	c.step("100 more", c.progress)
	c.figures("under load")
	for range 2 {
		c.step("leader of the ensemble is killed, 100 more", func() { c.killLeader(); c.progress() })
	}
	for range 2 {
		c.step("leading replica is killed", func() { c.killLeading(func() {}) })
	}
	c.step("leading replica and leader of the ensemble are killed", func() { c.killLeading(c.killLeader) })
	c.step("leading replica is frozen until it leads no more", c.freezeLeading)
	c.step("rows are changed and removed, leader killed meanwhile", c.mutate)
	c.step("a replica loses its disk", c.loseDisk)
	c.step("rolling restart of the ensemble", func() { c.restartAll(c.progress) })
	c.step("nothing is lost", c.judge)
}

var clickhouseCode = regexp.MustCompile(`Code: \d+`)

func newClickHouse(t *testing.T) *clickhouse {
	t.Helper()
	if _, err := os.Stat(clickhouseServer); err != nil {
		t.Fatal("ClickHouse is not installed: apt-get install clickhouse-server")
	}
	return &clickhouse{scene: newScene(t), stop: make(chan struct{}), refused: map[string]int{}}
}

func (c *clickhouse) startAll() {
	var err error
	c.zk, err = client.Dial(c.t.Context(), c.addrs(), client.Options{SessionTimeout: 20 * time.Second})
	must(c.t, err)
	c.t.Cleanup(func() { _ = c.zk.Close() })
	_, _, err = c.zk.Create(c.t.Context(), clickhouseRoot, nil, client.CreateOptions{})
	must(c.t, err)
	for n := range 3 {
		ports := childtest.Ports(c.t, 3)
		c.replicas = append(c.replicas, &clickhouseReplica{name: fmt.Sprintf("r%d", n), dir: c.t.TempDir(), http: ports, tcp: ports + 1, peers: ports + 2})
	}
	for _, r := range c.replicas {
		c.start(r)
	}
	c.must(c.replicas[0], "CREATE TABLE events ON CLUSTER all (n UInt64, day Date, s String) "+
		"ENGINE = ReplicatedMergeTree('/tables/events', '{replica}') PARTITION BY n % 4 ORDER BY n")
	// Later the command would not end: of this version, a replica that has lost its connection does not notice it.
	c.must(c.replicas[1], "ALTER TABLE events ON CLUSTER all ADD COLUMN a UInt8 DEFAULT 7")
	c.awaitLeading(nil)
}

// start starts a replica and waits until it answers.
func (c *clickhouse) start(r *clickhouseReplica) {
	c.t.Helper()
	var servers, all strings.Builder
	for _, addr := range strings.Split(c.addrs(), ",") {
		host, port, _ := strings.Cut(addr, ":")
		fmt.Fprintf(&servers, "<node><host>%s</host><port>%s</port></node>", host, port)
	}
	for _, other := range c.replicas {
		fmt.Fprintf(&all, "<replica><host>127.0.0.1</host><port>%d</port></replica>", other.tcp)
	}
	config := fmt.Sprintf(`<yandex>
<logger><level>information</level><console>1</console></logger>
<listen_host>127.0.0.1</listen_host><http_port>%d</http_port><tcp_port>%d</tcp_port>
<interserver_http_port>%d</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
<path>%[4]s/data/</path><tmp_path>%[4]s/tmp/</tmp_path>
<mark_cache_size>8388608</mark_cache_size><users_config>users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<macros><replica>%[5]s</replica></macros>
<zookeeper>%[6]s<session_timeout_ms>6000</session_timeout_ms><root>%[7]s</root><identity>click:house</identity></zookeeper>
<remote_servers><all><shard><internal_replication>true</internal_replication>%[8]s</shard></all></remote_servers>
<distributed_ddl><path>/task_queue/ddl</path></distributed_ddl>
<merge_tree><zookeeper_session_expiration_check_period>1</zookeeper_session_expiration_check_period>
<replicated_deduplication_window>100000</replicated_deduplication_window></merge_tree>
</yandex>
`, r.http, r.tcp, r.peers, r.dir, r.name, &servers, clickhouseRoot, &all)
	users := `<yandex><profiles><default><background_pool_size>4</background_pool_size></default></profiles><quotas><default/></quotas>
<users><default><password/><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users></yandex>
`
	must(c.t, os.MkdirAll(filepath.Join(r.dir, "data"), 0o755))
	must(c.t, os.WriteFile(filepath.Join(r.dir, "config.xml"), []byte(config), 0o644))
	must(c.t, os.WriteFile(filepath.Join(r.dir, "users.xml"), []byte(users), 0o644))
	r.program = start(c.t, "clickhouse-"+r.name, clickhouseServer, "--config-file="+filepath.Join(r.dir, "config.xml"))
	eventually(c.t, r.name+" answers", func() error { _, err := c.query(r, "SELECT 1"); return err })
}

// query asks a replica, and returns the answer.
func (c *clickhouse) query(r *clickhouseReplica, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	where := fmt.Sprintf("http://127.0.0.1:%d/?insert_quorum=2&insert_quorum_timeout=10000&query=%s", r.http, url.QueryEscape(sql))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, where, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", answer.Status, body)
	}
	return strings.TrimSpace(string(body)), err
}

func (c *clickhouse) must(r *clickhouseReplica, sql string) string {
	c.t.Helper()
	answer, err := c.query(r, sql)
	if err != nil {
		c.t.Fatalf("%s: %s: %v", r.name, sql, err)
	}
	return answer
}

// startWork inserts rows one after the other, at each replica in turn. A row that may not have been inserted is tried
// again at the next one, and is not to be there twice: the replicas find the block's hash in a znode.
func (c *clickhouse) startWork() {
	c.t.Cleanup(c.work.Wait)
	c.t.Cleanup(c.endWork)
	c.work.Go(func() {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for n, turn := 0, 0; ; turn++ {
			select {
			case <-c.stop:
				return
			default:
			}
			if c.replicas[turn%3].frozen.Load() {
				continue // it would take the request and answer much later
			}
			began := time.Now()
			_, err := c.query(c.replicas[turn%3], fmt.Sprintf("INSERT INTO events (n, day, s) VALUES (%d, '2026-01-01', 'row %d')", n, n))
			c.mu.Lock()
			c.longest = max(c.longest, time.Since(began))
			if err == nil {
				c.acked = append(c.acked, n)
				n++
			} else {
				c.refused[clickhouseCode.FindString(err.Error())]++
			}
			c.mu.Unlock()
			if err != nil {
				<-again.C
			}
		}
	})
}

func (c *clickhouse) endWork() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
}

func (c *clickhouse) rows() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.acked)
}

// progress waits until 100 more rows are inserted.
func (c *clickhouse) progress() {
	c.t.Helper()
	before := c.rows()
	until(c.t, "100 more rows", func() bool { return c.rows() >= before+100 })
}

// killLeading kills the replica that leads, does something more, and starts it again once another one leads.
func (c *clickhouse) killLeading(more func()) {
	c.t.Helper()
	old := c.awaitLeading(nil)
	old.program.kill()
	more()
	c.awaitLeading(old)
	c.progress()
	c.merge()
	c.start(old)
	c.awaitActive()
	c.progress()
}

// freezeLeading pauses the replica that leads until another one does.
func (c *clickhouse) freezeLeading() {
	old := c.awaitLeading(nil)
	process := old.program.command.Process
	old.frozen.Store(true)
	must(c.t, process.Signal(syscall.SIGSTOP))
	until(c.t, "the frozen replica is not active", func() bool { return !c.active(old) })
	c.awaitLeading(old)
	c.progress()
	must(c.t, process.Signal(syscall.SIGCONT))
	old.frozen.Store(false)
	c.awaitActive()
	c.awaitLeading(nil)
	c.progress()
}

// awaitLeading waits until exactly one replica leads, and it is not the given one, which may be frozen.
func (c *clickhouse) awaitLeading(not *clickhouseReplica) *clickhouseReplica {
	c.t.Helper()
	var found *clickhouseReplica
	until(c.t, "one replica leads", func() bool {
		found = nil
		for _, r := range c.replicas {
			if r == not {
				continue
			}
			if answer, err := c.query(r, "SELECT is_leader FROM system.replicas WHERE table = 'events'"); err == nil && answer == "1" {
				if found != nil {
					return false
				}
				found = r
			}
		}
		return found != nil
	})
	return found
}

func (c *clickhouse) active(r *clickhouseReplica) bool {
	_, found, err := c.zk.Exists(c.t.Context(), clickhouseTable+"/replicas/"+r.name+"/is_active")
	return found || err != nil
}

func (c *clickhouse) awaitActive() {
	c.t.Helper()
	until(c.t, "all replicas are active and can write", func() bool {
		for _, r := range c.replicas {
			if answer, err := c.query(r, "SELECT is_readonly, active_replicas FROM system.replicas WHERE table = 'events'"); err != nil || answer != "0\t3" {
				return false
			}
		}
		return true
	})
}

// merge has the replica that leads merge a partition, by a request to each that lives: the others forward it.
func (c *clickhouse) merge() {
	c.t.Helper()
	for _, r := range c.replicas {
		if r.program.hasEnded() {
			continue
		}
		eventually(c.t, "a merge that "+r.name+" was asked for", func() error {
			_, err := c.query(r, "OPTIMIZE TABLE events PARTITION 1 FINAL")
			return err
		})
	}
}

// mutate changes each seventh and removes each eleventh row of those so far.
func (c *clickhouse) mutate() {
	c.t.Helper()
	c.mutated = c.rows()
	one := c.awaitLeading(nil)
	c.must(one, fmt.Sprintf("ALTER TABLE events UPDATE s = concat('changed ', s) WHERE n %% 7 = 0 AND n < %d", c.mutated))
	c.must(one, fmt.Sprintf("ALTER TABLE events DELETE WHERE n %% 11 = 0 AND n < %d", c.mutated))
	c.killLeader()
	for _, r := range c.replicas {
		eventually(c.t, "all rows as they should be at "+r.name, func() error { return c.mutatedAt(r) })
	}
	c.progress()
}

// mutatedAt checks that the right rows of a replica are changed, and that those that were to be removed are gone. What
// the replica says of it (is_done) may stay false when all is done.
func (c *clickhouse) mutatedAt(r *clickhouseReplica) error {
	wrong, err := c.query(r, fmt.Sprintf("SELECT count() FROM events WHERE (s LIKE 'changed row %%') != (n %% 7 = 0 AND n < %[1]d) "+
		"OR n %% 11 = 0 AND n < %[1]d", c.mutated))
	if err == nil && wrong != "0" {
		err = fmt.Errorf("%s rows are not", wrong)
	}
	return err
}

// loseDisk removes what a replica has stored, and lets it fetch all from the others.
func (c *clickhouse) loseDisk() {
	c.t.Helper()
	leading := c.awaitLeading(nil)
	lost := c.replicas[0]
	if lost == leading {
		lost = c.replicas[1]
	}
	lost.program.kill()
	must(c.t, os.RemoveAll(filepath.Join(lost.dir, "data", "data", "default", "events")))
	flags := filepath.Join(lost.dir, "data", "flags")
	must(c.t, os.MkdirAll(flags, 0o755))
	must(c.t, os.WriteFile(filepath.Join(flags, "force_restore_data"), nil, 0o644))
	c.start(lost)
	c.killLeader()
	c.awaitActive()
	c.progress()
}

// judge checks that each replica has all rows that were acknowledged, once, and one leads.
func (c *clickhouse) judge() {
	c.endWork()
	c.work.Wait()
	c.awaitActive()
	c.awaitLeading(nil)
	c.merge()
	for _, r := range c.replicas {
		eventually(c.t, "an empty queue at "+r.name, func() error {
			queue, err := c.query(r, "SELECT queue_size + absolute_delay FROM system.replicas WHERE table = 'events'")
			if err == nil && queue != "0" {
				err = fmt.Errorf("%s to do", queue)
			}
			return err
		})
		times := map[int]int{}
		for _, n := range numbers(c.t, c.must(r, "SELECT n FROM events WHERE a = 7")) {
			times[n]++
		}
		for n := range c.rows() {
			want := 1
			if n%11 == 0 && n < c.mutated {
				want = 0
			}
			if times[n] != want {
				c.t.Errorf("row %d is %d times at %s, not %d times", n, times[n], r.name, want)
			}
		}
		must(c.t, c.mutatedAt(r))
	}
	if _, _, err := c.zk.Get(c.t.Context(), clickhouseTable+"/metadata"); !errors.Is(err, zk.ErrNoAuth) {
		c.t.Errorf("a stranger reads %s: %v", clickhouseTable, err)
	}
	c.figures("ClickHouse 18.16")
	c.t.Logf("%d rows acknowledged, the longest took %v; inserts tried again: %v", c.rows(), c.longest, c.refused)
}
