//go:build linux && applications

package applications

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/childtest"
)

// A solr is two nodes of SolrCloud below a chroot, whose znodes have ACLs of digest identities.
type solr struct {
	*scene
	jars   string
	driver string
	flags  []string
	ports  []int
	homes  []string
	nodes  []*program
}

// solrSecurity is how Solr's reference guide has operators protect its znodes.
var solrSecurity = []string{
	"-DzkACLProvider=org.apache.solr.common.cloud.DigestZkACLProvider",
	"-DzkCredentialsProvider=org.apache.solr.common.cloud.DigestZkCredentialsProvider",
	"-DzkCredentialsInjector=org.apache.solr.common.cloud.VMParamsZkCredentialsInjector",
	"-DzkDigestUsername=admin-user", "-DzkDigestPassword=admin-secret",
	"-DzkDigestReadonlyUsername=readonly-user", "-DzkDigestReadonlyPassword=readonly-secret",
}

const solrXML = `<solr>
  <solrcloud>
    <str name="host">127.0.0.1</str>
    <int name="hostPort">${hostPort:8983}</int>
    <str name="hostContext">solr</str>
    <int name="zkClientTimeout">6000</int>
    <str name="zkACLProvider">${zkACLProvider}</str>
    <str name="zkCredentialsProvider">${zkCredentialsProvider}</str>
    <str name="zkCredentialsInjector">${zkCredentialsInjector}</str>
  </solrcloud>
</solr>
`

// TestSolrCloud kills nodes of Solr and leaders of the ensemble while documents are added.
func TestSolrCloud(t *testing.T) {
	s := &solr{scene: newScene(t), jars: jars(t, "solr")}
	var err error
	s.driver, err = filepath.Abs(filepath.Join("java", "Solr.java"))
	must(t, err)
	s.flags = append([]string{"-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-DzkHost=" + s.addrs() + "/solr",
		"-Dsolr.install.dir=" + t.TempDir()}, solrSecurity...)
	config, err := filepath.Abs(filepath.Join("testdata", "solr"))
	must(t, err)
	s.step("solr zk mkroot", func() { s.zk("mkroot", "/solr") })
	s.step("solr zk upconfig", func() { s.zk("upconfig", "-n", "application", "-d", config) })
	first := childtest.Ports(t, 2)
	for n := range 2 {
		home := t.TempDir()
		must(t, os.WriteFile(filepath.Join(home, "solr.xml"), []byte(solrXML), 0o644))
		s.homes, s.ports, s.nodes = append(s.homes, home), append(s.ports, first+n), append(s.nodes, nil)
		s.step(fmt.Sprintf("start of node %d", n), func() { s.startNode(n) })
	}
	s.step("create a collection", func() {
		s.admin(0, "action=CREATE&name=c&numShards=2&replicationFactor=2&collection.configName=application")
		s.awaitActive()
	})
	s.zkTools(config)
	s.zkStatus()
	worker := java(t, "worker", s.jars, append(slices.Clone(s.flags), s.driver, "work", s.addrs(), "/solr", "c")...)
	worker.awaitMore("acknowledged (d[0-9]+)", 200)
	s.figures("under load")
	for range 2 {
		s.step("kill the ensemble's leader, 100 more", func() {
			s.killLeader()
			worker.awaitMore("acknowledged (d[0-9]+)", 100)
		})
	}
	for n := range 2 {
		overseer := s.overseer()
		s.step("kill a node, 100 more", func() {
			s.nodes[n].kill()
			worker.awaitMore("acknowledged (d[0-9]+)", 100)
		})
		s.step("another overseer", func() {
			eventually(s.t, "an overseer that is alive", func() error {
				if id := s.overseerOr(); id == "" || strings.HasSuffix(id, fmt.Sprintf(":%d_solr", s.ports[n])) {
					return fmt.Errorf("overseer %q, before %q", id, overseer)
				}
				return nil
			})
		})
		s.step("the node recovers", func() {
			s.startNode(n)
			s.awaitActive()
		})
	}
	s.step("rolling restart, 100 more", func() {
		s.restartAll(func() {})
		worker.awaitMore("acknowledged (d[0-9]+)", 100)
	})
	worker.kill()
	s.awaitActive()
	s.nothingLost(worker.matches("acknowledged (d[0-9]+)"))
	s.figures("at the end")
	for _, p := range append(slices.Clone(s.nodes), worker) {
		if lost := p.matches("(?i)(session (?:has )?expired|SessionExpired)"); len(lost) > 0 {
			t.Errorf("%s lost its session", p.name)
		}
	}
	slowest := worker.matches(`acknowledged d[0-9]+ after ([0-9]{4,}) ms`)
	t.Logf("%d documents acknowledged; slower than a second: %v ms", len(worker.matches("acknowledged (d[0-9]+)")), slowest)
}

// startNode starts a node and waits until it is among the live ones.
func (s *solr) startNode(n int) {
	s.t.Helper()
	s.nodes[n] = java(s.t, fmt.Sprintf("node%d", n), s.jars, append(slices.Clone(s.flags),
		"-Dsolr.log.dir="+s.homes[n], s.driver, "node", s.homes[n], fmt.Sprint(s.ports[n]))...)
	s.nodes[n].await("node started")
}

// zk runs a command of "bin/solr zk".
func (s *solr) zk(command string, args ...string) string {
	s.t.Helper()
	line := append([]string{"java", "-cp", s.jars}, s.flags...)
	line = append(line, "org.apache.solr.cli.SolrCLI", "zk", command)
	where := s.addrs() + "/solr"
	if command == "mkroot" {
		where = s.addrs()
	}
	return run(s.t, "solr zk "+command, append(append(line, args...), "-z", where)...)
}

// zkTools does what operators do by "bin/solr zk".
func (s *solr) zkTools(config string) {
	s.t.Helper()
	s.step("solr zk ls, cp, mv, downconfig, rm, updateacls", func() {
		if out := s.zk("ls", "/live_nodes"); strings.Count(out, "_solr") != 2 {
			s.t.Errorf("solr zk ls /live_nodes printed\n%s", out)
		}
		s.zk("cp", "file:"+filepath.Join(config, "schema.xml"), "zk:/copied.xml")
		s.zk("mv", "zk:/copied.xml", "zk:/moved.xml")
		dir := s.t.TempDir()
		s.zk("downconfig", "-n", "application", "-d", dir)
		for _, name := range []string{"schema.xml", "solrconfig.xml"} {
			sent, err := os.ReadFile(filepath.Join(config, name))
			must(s.t, err)
			back, err := os.ReadFile(filepath.Join(dir, "conf", name))
			must(s.t, err)
			if string(sent) != string(back) {
				s.t.Errorf("%s came back with other content", name)
			}
		}
		s.zk("rm", "zk:/moved.xml")
		s.zk("updateacls", "/configs")
	})
}

// zkStatus checks what Solr's page on ZooKeeper shows, which it has from ruok, conf and mntr of each server.
func (s *solr) zkStatus() {
	s.t.Helper()
	answer, err := s.get(0, "admin/zookeeper/status?wt=json")
	must(s.t, err)
	status := answer["zkStatus"].(map[string]any)
	if status["status"] != "green" || status["errors"] != nil || status["mode"] != "ensemble" {
		s.t.Errorf("Solr's status of ZooKeeper: %v", status)
	}
	s.t.Logf("Solr's status of ZooKeeper: %v", status)
}

// get returns what a node answers.
func (s *solr) get(n int, path string) (map[string]any, error) {
	client := http.Client{Timeout: patience}
	response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/solr/%s", s.ports[n], path))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil || response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", path, response.Status, text)
	}
	return answer, nil
}

func (s *solr) admin(n int, query string) map[string]any {
	s.t.Helper()
	answer, err := s.get(n, "admin/collections?wt=json&"+query)
	must(s.t, err)
	return answer
}

// overseerOr returns the node that is the overseer, "" if none answers.
func (s *solr) overseerOr() string {
	for n := range s.nodes {
		if answer, err := s.get(n, "admin/collections?wt=json&action=OVERSEERSTATUS"); err == nil {
			leader, _ := answer["leader"].(string)
			return leader
		}
	}
	return ""
}

func (s *solr) overseer() string {
	s.t.Helper()
	id := s.overseerOr()
	if id == "" {
		s.t.Fatal("no node answers OVERSEERSTATUS")
	}
	return id
}

// awaitActive waits until all replicas are active and each shard has exactly one leader.
func (s *solr) awaitActive() {
	s.t.Helper()
	eventually(s.t, "all replicas are active", func() error {
		answer, err := s.get(0, "admin/collections?wt=json&action=CLUSTERSTATUS&collection=c")
		if err != nil {
			return err
		}
		text, err := json.Marshal(answer["cluster"])
		if err != nil {
			return err
		}
		var cluster struct {
			LiveNodes   []string `json:"live_nodes"`
			Collections map[string]struct {
				Shards map[string]struct {
					Replicas map[string]struct{ State, Leader string }
				}
			}
		}
		if err := json.Unmarshal(text, &cluster); err != nil {
			return err
		}
		active, leaders := 0, 0
		for _, shard := range cluster.Collections["c"].Shards {
			of := 0
			for _, replica := range shard.Replicas {
				if replica.State == "active" {
					active++
				}
				if replica.Leader == "true" {
					of++
				}
			}
			if of == 1 {
				leaders++
			}
		}
		if active != 4 || leaders != 2 || len(cluster.LiveNodes) != 2 {
			return fmt.Errorf("%d active replicas, %d shards with one leader: %s", active, leaders, text)
		}
		return nil
	})
}

// nothingLost checks that each replica by itself has every document that was acknowledged.
func (s *solr) nothingLost(acknowledged []string) {
	s.t.Helper()
	_, err := s.get(0, "c/update?commit=true&wt=json")
	must(s.t, err)
	for n := range s.nodes {
		answer, err := s.get(n, "c/select?wt=json&shards.preference="+url.QueryEscape("replica.location:local")+"&rows=1000000&fl=id&q="+url.QueryEscape("*:*"))
		must(s.t, err)
		found := map[string]bool{}
		for _, document := range answer["response"].(map[string]any)["docs"].([]any) {
			found[document.(map[string]any)["id"].(string)] = true
		}
		lost := 0
		for _, id := range acknowledged {
			if !found[id] {
				lost++
			}
		}
		s.t.Logf("node %d has %d documents", n, len(found))
		if lost > 0 {
			s.t.Errorf("node %d has lost %d of %d acknowledged documents", n, lost, len(acknowledged))
		}
	}
}
