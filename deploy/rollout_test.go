//go:build packages

package deploy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/workload"
)

// imageProgram extracts a file from the image, and what a container of it would run.
func imageProgram(t testing.TB, name string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), filepath.Base(name))
	for file := range rootOf(t) {
		if file.Name == name {
			if err := os.WriteFile(to, file.body, 0o755); err != nil {
				t.Fatal(err)
			}
			return to
		}
	}
	t.Fatalf("the image has no %s", name)
	return ""
}

type imageFile struct {
	*tar.Header
	body []byte
}

// rootOf yields the files of the image's layer.
func rootOf(t testing.TB) func(func(imageFile) bool) {
	archive, err := os.ReadFile(made(t, "-image-linux-amd64.tar"))
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	each(t, bytes.NewReader(archive), func(f imageFile) bool { blobs[f.Name] = f.body; return true })
	var loaded []struct{ Layers []string }
	if err := json.Unmarshal(blobs["manifest.json"], &loaded); err != nil {
		t.Fatal(err)
	}
	layer, err := gzip.NewReader(bytes.NewReader(blobs[loaded[0].Layers[0]]))
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(imageFile) bool) { each(t, layer, yield) }
}

func each(t testing.TB, r io.Reader, yield func(imageFile) bool) {
	t.Helper()
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if !yield(imageFile{h, body}) {
			return
		}
	}
}

// nameServer answers for pods as a cluster's name server does for those of a headless service: a
// pod that does not exist has no name.
type nameServer struct {
	mu    sync.Mutex
	names map[string]net.IP
}

func (s *nameServer) set(name string, address net.IP) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[name] = address
}

// start serves on a loopback address of its own, and makes this machine's programs ask there.
func (s *nameServer) start(t testing.TB) {
	const address = "127.53.53.53"
	conn, err := net.ListenPacket("udp", address+":53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		packet := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if reply := s.answer(packet[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from) // a client that has given up asks again
			}
		}
	}()
	config := filepath.Join(t.TempDir(), "resolv.conf")
	write(t, config, "nameserver "+address+"\noptions ndots:1\n")
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(config, "/etc/resolv.conf", "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount("/etc/resolv.conf", 0) })
}

// answer makes the reply to a query for one address. The query has 12 bytes, the labels of the
// name, and two bytes each for type and class.
func (s *nameServer) answer(query []byte) []byte {
	const head = 12
	if len(query) < head {
		return nil
	}
	var labels []string
	at := head
	for at < len(query) && query[at] != 0 {
		next := at + 1 + int(query[at])
		if next >= len(query) {
			return nil
		}
		labels = append(labels, string(query[at+1:next]))
		at = next
	}
	at += 5
	if at > len(query) {
		return nil
	}
	s.mu.Lock()
	address := s.names[strings.ToLower(strings.Join(labels, "."))]
	s.mu.Unlock()
	reply := append([]byte{query[0], query[1], 0x84, 0x80}, 0, 1, 0, 0, 0, 0, 0, 0)
	reply = append(reply, query[head:at]...)
	asked := binary.BigEndian.Uint16(query[at-4:])
	switch {
	case address == nil:
		reply[3] |= 3 // there is no such name
	case asked == 1:
		reply[7] = 1
		reply = append(reply, 0xc0, head, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4) // 5 s
		reply = append(reply, address.To4()...)
	}
	return reply
}

// pod plays a pod of the StatefulSet: the image's program and the chart's zoo.cfg, on an address
// that is new each time.
type pod struct {
	ordinal, generation int
	name, data          string
	process             *exec.Cmd
	ended               chan struct{}
	log                 *awaittest.Log
}

// set plays the StatefulSet.
type set struct {
	t       testing.TB
	program string
	config  string
	names   nameServer
	pods    []*pod
}

func (p *pod) address() net.IP { return net.IPv4(127, 61, byte(p.generation), byte(p.ordinal+1)) }

func (p *pod) host() string { return p.name + ".conclave-servers.conclave.svc.cluster.local" }

// newSet takes zoo.cfg from the manifests. The paths are those of this machine; everything else is
// the chart's, except that three servers on one machine cannot each listen on all addresses.
func newSet(t testing.TB) *set {
	s := &set{t: t, program: imageProgram(t, "usr/bin/conclave"), names: nameServer{names: map[string]net.IP{}}}
	s.config = filepath.Join(t.TempDir(), "zoo.cfg")
	write(t, s.config, configOf(read(t, "kubernetes/conclave.yaml")))
	s.names.start(t)
	for i := range 3 {
		s.pods = append(s.pods, &pod{ordinal: i, name: fmt.Sprintf("conclave-%d", i), data: t.TempDir()})
	}
	return s
}

func (s *set) start(p *pod) {
	s.t.Helper()
	p.generation++
	p.log, p.ended = &awaittest.Log{}, make(chan struct{})
	s.names.set(p.host(), p.address())
	p.process = exec.Command(s.program, "serve", "--config", s.config, "-D", "conclave.myid="+p.name,
		"-D", "dataDir="+p.data, "-D", "quorumListenOnAllIPs=false",
		"-D", "clientPortAddress="+p.address().String(), "-D", "admin.serverAddress="+p.address().String())
	p.process.Stderr = p.log
	childtest.Start(s.t, p.process)
	ended, process := p.ended, p.process
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	s.t.Cleanup(func() {
		_ = process.Process.Kill() // it may have ended
		<-ended
		if s.t.Failed() {
			s.t.Logf("%s:\n%s", p.name, p.log.String())
		}
	})
}

// probe sends the same request as the kubelet.
func (p *pod) probe(path string) bool {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get("http://" + p.address().String() + ":8080" + path)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// leads reports whether the pod leads.
func (p *pod) leads() bool {
	client := http.Client{Timeout: 2 * time.Second}
	answer, err := client.Get("http://" + p.address().String() + ":8080/commands/leader")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	var is struct {
		Leader bool `json:"is_leader"`
	}
	return json.NewDecoder(answer.Body).Decode(&is) == nil && is.Leader
}

// replace ends a pod as a rollout does, and returns how long that took.
func (s *set) replace(p *pod) time.Duration {
	s.t.Helper()
	began := time.Now()
	if err := p.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	<-p.ended
	took := time.Since(began)
	if code := p.process.ProcessState.ExitCode(); code != 0 {
		s.t.Errorf("%s has ended with %d", p.name, code)
	}
	s.names.set(p.host(), nil)
	s.start(p)
	awaittest.Until(s.t, p.name+" is ready", func() bool { return p.probe("/readyz") })
	return took
}

// writesStopMax is far longer than a rollout stops writes, because machines may be busy, and far
// shorter than a session's timeout.
const writesStopMax = 3 * time.Second

// TestRolloutLosesNoSession replaces three servers from the highest ordinal down, as a
// StatefulSet does, each on a new address, under load.
func TestRolloutLosesNoSession(t *testing.T) {
	s := newSet(t)
	for _, p := range s.pods {
		s.start(p)
	}
	var hosts []string
	for _, p := range s.pods {
		awaittest.Until(t, p.name+" is ready", func() bool { return p.probe("/readyz") && p.probe("/livez") })
		hosts = append(hosts, p.host()+":2181")
	}
	ctx := context.Background()
	load, err := workload.Start(ctx, workload.Options{Servers: strings.Join(hosts, ","), Writers: 4, Readers: 2, Kept: 500,
		Pause: 2 * time.Millisecond, SessionTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer load.Close()
	elections, longest := 0, time.Duration(0)
	for round := range 2 {
		for i := len(s.pods) - 1; i >= 0; i-- {
			p := s.pods[i]
			if err := load.Await(ctx, 200); err != nil {
				t.Fatal(err)
			}
			led, began := p.leads(), time.Now()
			took := s.replace(p)
			if err := load.Await(ctx, 200); err != nil {
				t.Fatal(err)
			}
			gap := load.GapSince(began)
			t.Logf("round %d, %s, leader %v: ended in %v, ready after %v, longest gap between writes %v", round+1, p.name, led,
				took.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), gap.Round(time.Millisecond))
			if led {
				elections++
			}
			longest = max(longest, gap)
		}
	}
	load.Finish()
	figures := load.Figures()
	t.Logf("two rollouts, %d elections: %v; longest stop of writes %v", elections, figures, longest.Round(time.Millisecond))
	if figures.Lost != 0 {
		t.Errorf("%d sessions were lost", figures.Lost)
	}
	if longest > writesStopMax {
		t.Errorf("writes stopped for %v", longest)
	}
	breaches, err := load.Verify(ctx, hosts)
	if err != nil || len(breaches) > 0 {
		t.Errorf("promises were broken: %s (%v)", strings.Join(breaches, "; "), err)
	}
}
