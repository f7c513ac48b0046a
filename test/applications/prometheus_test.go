//go:build linux && applications

package applications

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/zk"
)

// TestPrometheus has Prometheus find its targets in ZooKeeper, in both ways that it knows, while members come, go and
// change, and leaders of the ensemble are killed. It reads a znode again only when a watch fires.
func TestPrometheus(t *testing.T) {
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Fatal("Prometheus is not installed: apt-get install prometheus")
	}
	s := newScene(t)
	p := &prometheus{scene: s, members: map[string]string{}, port: childtest.Port(t)}
	p.start()
	for range 30 {
		p.join()
	}
	p.step("targets are found", p.awaitTargets)
	p.figures("under load")
	for range 3 {
		p.step("leader of the ensemble is killed, members come, go and change", func() {
			p.killLeader()
			p.change()
			p.awaitTargets()
		})
	}
	p.step("members change while Prometheus has no server", func() {
		p.killLeaderAnd(p.change)
		p.awaitTargets()
	})
	p.step("the session of all members ends, and leader of the ensemble is killed", func() {
		must(t, p.owner.Close())
		p.killLeader()
		clear(p.members)
		p.awaitTargets()
		p.dialOwner()
		for range 20 {
			p.join()
		}
		p.awaitTargets()
	})
	p.step("rolling restart of the ensemble", func() { p.restartAll(func() { p.change(); p.awaitTargets() }) })
	p.figures("at the end")
	p.program.refuse() // it still runs
}

type prometheus struct {
	*scene
	program *program
	port    int
	owner   *client.Client    // of the members' session
	members map[string]string // the target of each member, by its path
	joined  int
}

func (p *prometheus) start() {
	p.dialOwner()
	for _, path := range []string{"/nerve", "/nerve/a", "/nerve/b", "/serverset"} {
		_, _, err := p.owner.Create(p.t.Context(), path, nil, client.CreateOptions{})
		must(p.t, err)
	}
	dir := p.t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	addrs := strings.ReplaceAll(p.addrs(), ",", "', '")
	must(p.t, os.WriteFile(config, []byte(fmt.Sprintf(`scrape_configs:
- job_name: members
  scrape_interval: 1h
  nerve_sd_configs: [{servers: ['%[1]s'], paths: [/nerve/a, /nerve/b], timeout: 6s}]
  serverset_sd_configs: [{servers: ['%[1]s'], paths: [/serverset], timeout: 6s}]
`, addrs)), 0o644))
	p.program = start(p.t, "prometheus", "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		fmt.Sprintf("--web.listen-address=127.0.0.1:%d", p.port), "--log.level=debug")
}

func (p *prometheus) dialOwner() {
	var err error
	p.owner, err = client.Dial(p.t.Context(), p.addrs(), client.Options{SessionTimeout: 20 * time.Second})
	must(p.t, err)
	p.t.Cleanup(func() { _ = p.owner.Close() })
}

// join adds a member below one of the paths.
func (p *prometheus) join() {
	p.t.Helper()
	p.joined++
	path := fmt.Sprint([]string{"/nerve/a/", "/nerve/b/", "/serverset/member_"}[p.joined%3], p.joined)
	p.again(zk.ErrNodeExists, func(ctx context.Context) error {
		_, _, err := p.owner.Create(ctx, path, p.data(path), client.CreateOptions{Mode: zk.Ephemeral})
		return err
	})
	p.members[path] = p.target()
}

// again does something until it is known to be done, which the given error shows, too.
func (p *prometheus) again(done error, f func(context.Context) error) {
	p.t.Helper()
	eventually(p.t, "a change of a member", func() error {
		err := f(p.t.Context())
		if errors.Is(err, done) {
			return nil
		}
		return err
	})
}

// target is where the member that was added or changed last is to be found.
func (p *prometheus) target() string { return fmt.Sprintf("127.0.0.1:%d", 10000+p.joined) }

func (p *prometheus) data(path string) []byte {
	endpoint := fmt.Sprintf(`{"host": "127.0.0.1", "port": %d, "name": "n"}`, 10000+p.joined)
	if strings.HasPrefix(path, "/serverset") {
		endpoint = `{"serviceEndpoint": ` + endpoint + `, "additionalEndpoints": {}, "status": "ALIVE", "shard": 0}`
	}
	return []byte(endpoint)
}

// change removes five members, changes five, and adds five.
func (p *prometheus) change() {
	p.t.Helper()
	for n, path := range slices.Sorted(maps.Keys(p.members))[:10] {
		if n%2 == 0 {
			p.again(zk.ErrNoNode, func(ctx context.Context) error { return p.owner.Delete(ctx, path, -1) })
			delete(p.members, path)
			continue
		}
		p.joined++
		p.again(nil, func(ctx context.Context) error { _, err := p.owner.Set(ctx, path, p.data(path), -1); return err })
		p.members[path] = p.target()
	}
	for range 5 {
		p.join()
	}
}

// awaitTargets waits until Prometheus has the members' targets, and no others.
func (p *prometheus) awaitTargets() {
	p.t.Helper()
	want := slices.Sorted(maps.Values(p.members))
	eventually(p.t, "the members' targets", func() error {
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/api/v1/targets?state=active", p.port))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		var found struct {
			Data struct {
				ActiveTargets []struct{ DiscoveredLabels map[string]string }
			}
		}
		if err := json.NewDecoder(answer.Body).Decode(&found); err != nil {
			return err
		}
		var got []string
		for _, target := range found.Data.ActiveTargets {
			got = append(got, target.DiscoveredLabels["__address__"])
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("%d targets %v, not %v", len(got), got, want)
		}
		return nil
	})
}
