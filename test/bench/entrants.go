//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"crypto/tls"
	"crypto/x509"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/bench/tap"
	"github.com/conclave-project/conclave/test/servers"
	"github.com/conclave-project/conclave/test/stores"
)

// workerModule is the directory of the worker, relative to the top of the tree.
const workerModule = "test/bench/worker"

// A party is a worker process in which many candidates campaign.
type party struct {
	pid   int
	input io.WriteCloser
	end   func()

	mu      sync.Mutex
	led     map[string]bool // names of the elections that it has led
	ledAt   time.Time       // time of the last leadership
	calm    int             // answers to calmDown
	changed chan struct{}
	over    bool // it will print nothing more
}

// startParty starts a worker.
func startParty(line []string) (*party, error) {
	command := exec.Command(line[0], line[1:]...)
	command.Stderr = os.Stderr
	in, err1 := command.StdinPipe()
	out, err2 := command.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	end, err := childtest.Begin(command)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	p := &party{pid: command.Process.Pid, input: in, end: end, led: map[string]bool{}, changed: make(chan struct{})}
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			p.note(strings.TrimSpace(line), err != nil)
			if err != nil {
				return
			}
		}
	}()
	return p, nil
}

// note handles a line that the process has printed, or its end.
func (p *party) note(line string, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name, led := strings.CutPrefix(line, "led "); led {
		p.led[name], p.ledAt = true, time.Now()
	}
	if strings.HasPrefix(line, "calm ") {
		p.calm++
	}
	p.over = last
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns when enough, called after each line, returns true.
func (p *party) await(ctx context.Context, what string, enough func() bool) error {
	for {
		p.mu.Lock()
		done, over, changed := enough(), p.over, p.changed
		p.mu.Unlock()
		switch {
		case done:
			return nil
		case over:
			return fmt.Errorf("bench: the candidates have ended before %s", what)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("bench: waiting until %s: %w", what, context.Cause(ctx))
		}
	}
}

// awaitLed returns when the party has led this many elections.
func (p *party) awaitLed(ctx context.Context, elections int) error {
	return p.await(ctx, "all elections are led", func() bool { return len(p.led) >= elections })
}

// calmDown makes the process collect its garbage.
func (p *party) calmDown(ctx context.Context) error {
	before := p.calm
	if _, err := io.WriteString(p.input, "\n"); err != nil {
		return err
	}
	return p.await(ctx, "its garbage is collected", func() bool { return p.calm > before })
}

// cpu returns the process's CPU time so far, in nanoseconds: one candidate takes less than
// the tick in which CPUOf counts. Threads that have ended are left out.
func (p *party) cpu() (sum time.Duration, err error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid))
	if err == nil && len(threads) == 0 {
		err = errors.New("bench: the candidates have ended")
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if err != nil {
			continue // the thread has ended
		}
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			return 0, err
		}
		sum += time.Duration(ran)
	}
	return sum, err
}

// memory returns the process's own (anonymous) resident memory, in bytes.
func (p *party) memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("bench: no RssAnon")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// A crowd is the number of candidates in a measurement.
type crowd struct{ candidates, elections, clients int }

// parseCrowd parses "100x1/100": candidates of each election, elections, clients.
func parseCrowd(text string) (c crowd, err error) {
	if _, err := fmt.Sscanf(text, "%dx%d/%d", &c.candidates, &c.elections, &c.clients); err != nil || c.String() != text ||
		min(c.candidates, c.elections, c.clients) < 1 {
		return c, fmt.Errorf("bench: crowd %q: say CANDIDATESxELECTIONS/CLIENTS, as 100x1/100", text)
	}
	return c, nil
}

func (c crowd) String() string { return fmt.Sprintf("%dx%d/%d", c.candidates, c.elections, c.clients) }

func (c crowd) all() int { return c.candidates * c.elections }

// A rival is a library on a store.
type rival struct{ store, way string }

// rivals are all measured combinations. The way "conclave" is our SDK.
var rivals = []rival{
	{"etcd", "conclave"}, {"etcd", "etcd"},
	{"consul", "conclave"}, {"consul", "consul"},
	{"conclave", "conclave"}, {"conclave", "curator"},
	{"zookeeper", "conclave"}, {"zookeeper", "curator"},
	{"kubernetes", "conclave"}, {"kubernetes", "client-go"},
	{"redis", "conclave"}, {"postgres", "conclave"}, {"nats", "conclave"},
}

// libraries are the names of the ways in the table.
var libraries = map[string]string{"conclave": "Conclave's SDK", "etcd": "clientv3/concurrency", "consul": "api.Lock, as consul lock",
	"curator": "Curator's LeaderLatch", "client-go": "client-go leaderelection"}

// workers are the command lines of the workers, to which arguments are appended.
type workers struct{ goWorker, java []string }

// buildWorkers builds the workers in a directory.
func buildWorkers(ctx context.Context, dir string, java bool) (w workers, err error) {
	root, err := servers.Root()
	if err != nil {
		return w, err
	}
	w.goWorker = []string{filepath.Join(dir, "worker")}
	build := exec.CommandContext(ctx, "go", "build", "-o", w.goWorker[0], ".")
	build.Dir, build.Env = filepath.Join(root, workerModule), append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return w, fmt.Errorf("bench: build %s: %w\n%s", workerModule, err, out)
	}
	if !java {
		return w, nil
	}
	list := filepath.Join(dir, "classpath")
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(root, "test/interop/java/pom.xml"),
		"dependency:build-classpath", "-Dmdep.outputFile="+list, "-Dinterop.build="+dir)
	if out, err := mvn.CombinedOutput(); err != nil {
		return w, fmt.Errorf("bench: find Curator with mvn: %w\n%s", err, out)
	}
	jars, err := os.ReadFile(list)
	if err != nil {
		return w, err
	}
	path := strings.TrimSpace(string(jars))
	javac := exec.CommandContext(ctx, "javac", "-cp", path, "-d", dir, filepath.Join(root, workerModule, "java/CuratorElections.java"))
	if out, err := javac.CombinedOutput(); err != nil {
		return w, fmt.Errorf("bench: compile CuratorElections: %w\n%s", err, out)
	}
	w.java = []string{"java", "-Xmx2g", "-Dlogback.configurationFile=" + filepath.Join(root, "test/servers/logback.xml"),
		"-Dconclave.log.level=WARN", "-cp", path + ":" + dir, "CuratorElections"}
	return w, nil
}

// line returns the command line for a rival's candidates.
func (w workers) line(r rival, url string, c crowd, lease time.Duration, id string) []string {
	if r.way == "curator" {
		return append(append([]string{}, w.java...), strings.TrimPrefix(url, "zookeeper://"), fmt.Sprint(c.elections), fmt.Sprint(c.candidates),
			fmt.Sprint(c.clients), fmt.Sprint(lease.Milliseconds()), id)
	}
	return append(append([]string{}, w.goWorker...), "campaign", "-way", r.way, "-url", url, "-elections", fmt.Sprint(c.elections),
		"-candidates", fmt.Sprint(c.candidates), "-clients", fmt.Sprint(c.clients), "-lease", lease.String(), "-id", id)
}

// An arena is a running store, together with what counts its requests.
type arena struct {
	*stores.Server
	url string
	tap *tap.Tap // nil if the store itself counts
}

// protocols are the protocols of the stores whose requests a tap counts.
var protocols = map[string]tap.Protocol{"consul": tap.HTTP, "conclave": tap.ZooKeeper, "zookeeper": tap.ZooKeeper, "redis": tap.Redis,
	"postgres": tap.Postgres, "nats": tap.NATS}

// openArena starts a store.
func openArena(ctx context.Context, name, dir string) (*arena, error) {
	s, err := stores.Launch(ctx, name, dir)
	if err != nil {
		return nil, err
	}
	a := &arena{Server: s, url: s.URL}
	if protocol := protocols[name]; protocol != nil {
		if a.tap, err = tap.New(s.Addr, protocol); err != nil {
			s.Stop()
			return nil, err
		}
		a.url = strings.ReplaceAll(s.URL, s.Addr, a.tap.Addr)
	}
	return a, nil
}

func (a *arena) close() {
	if a.tap != nil {
		a.tap.Close()
	}
	a.Stop()
}

// counted is the number of requests and heartbeats so far.
type counted struct{ requests, heartbeats int64 }

// counted asks the tap or the store. etcd counts all messages that its servers receive,
// including those on streams, where a keep-alive of a lease is one message, and also the
// end of each stream, which is no request. The API server counts its requests for Leases,
// including its own, and counts a watch when it has ended.
func (a *arena) counted(ctx context.Context) (c counted, err error) {
	if a.tap != nil {
		c.requests, c.heartbeats, err = a.tap.Counts()
		return c, err
	}
	client, url, token := http.DefaultClient, "http://"+a.Addr+"/metrics", ""
	name, label := "grpc_server_msg_received_total", ""
	if certificate := a.Note["certificate"]; certificate != "" {
		text, err := os.ReadFile(certificate)
		if err != nil {
			return c, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer transport.CloseIdleConnections()
		client, url, token = &http.Client{Transport: transport}, "https://"+a.Addr+"/metrics", a.Note["token"]
		name, label = "apiserver_request_total", `resource="leases"`
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return c, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(request)
	if err != nil {
		return c, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("bench: GET %s: %s", url, answer.Status)
	}
	c.requests = sumOf(string(text), name, label) - sumOf(string(text), "grpc_server_handled_total", `grpc_type="bidi_stream"`)
	return c, err
}

var sample = regexp.MustCompile(`^(\w+)\{(.*)\} (\S+)`)

// sumOf adds up the samples of a metric that have a label.
func sumOf(text, name, label string) (sum int64) {
	for line := range strings.Lines(text) {
		if m := sample.FindStringSubmatch(line); m != nil && m[1] == name && strings.Contains(m[2], label) {
			value, _ := strconv.ParseFloat(m[3], 64) // printed by the store itself
			sum += int64(value)
		}
	}
	return sum
}
