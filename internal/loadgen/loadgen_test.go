package loadgen

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// A fakeServer answers every request with OK, or with the result of answer, and counts.
type fakeServer struct {
	listener net.Listener
	answer   func(r *zk.Request) (zk.Code, *zk.Result)

	mu    sync.Mutex
	seen  map[zk.Op]int
	paths map[string]bool
}

func newFakeServer(t *testing.T) *fakeServer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &fakeServer{listener: l, seen: map[zk.Op]int{}, paths: map[string]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(c) })
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return s
}

func (s *fakeServer) options() Options {
	return Options{Addrs: []string{s.listener.Addr().String()}, Duration: 50 * time.Millisecond}
}

func (s *fakeServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	if frame, err := readFrame(r); err != nil || len(frame) != 45 {
		return
	}
	c.Write(wire.AppendConnectResponse(nil, &wire.ConnectResponse{TimeoutMs: 30000, Session: 1, HasReadOnly: true}))
	for {
		frame, err := readFrame(r)
		if err != nil {
			return
		}
		var q zk.Request
		if err := wire.DecodeRequest(frame, len(frame), &q); err != nil {
			return
		}
		s.mu.Lock()
		s.seen[q.Op]++
		s.paths[strings.Clone(q.Path)] = true
		s.mu.Unlock()
		code, result := zk.OK, &zk.Result{Op: q.Op, Path: q.Path, Data: []byte("x")}
		if s.answer != nil {
			code, result = s.answer(&q)
		}
		if _, err := c.Write(wire.AppendReply(nil, wire.ReplyHeader{Xid: q.Xid, Zxid: 1, Code: code}, result)); err != nil {
			return
		}
	}
}

func readFrame(r *bufio.Reader) ([]byte, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func TestEveryWorkloadSendsWhatItSays(t *testing.T) {
	for _, w := range Workloads {
		s := newFakeServer(t)
		o := s.options()
		o.Workload, o.Connections, o.InFlight, o.Operations, o.Znodes = w, 3, 16, 1000, 50
		o.Duration = time.Minute
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Operations != 1000 || r.Refused != 0 || r.PerSecond() <= 0 || r.Latencies.Quantile(0.5) <= 0 {
			t.Errorf("%s: %d operations, %d refused, %f per second", w, r.Operations, r.Refused, r.PerSecond())
		}
		reads, sets, creates := s.seen[zk.OpGetData], s.seen[zk.OpSetData], s.seen[zk.OpCreate]
		switch {
		case w == Get && reads == 1000 && s.paths["/bench/d000000049"] && !s.paths["/bench/d000000050"]:
		case w == Set && sets == 1000:
		case w == Create && creates == 1000+3+3:
		case w == Mix && reads+sets == 1000 && reads > 600 && reads < 800:
		default:
			t.Errorf("%s sent %v", w, s.seen)
		}
		if s.seen[zk.OpCloseSession] != 3 {
			t.Errorf("%s closed %d sessions of 3", w, s.seen[zk.OpCloseSession])
		}
	}
}

func TestEveryConnectionIsDialedAsTold(t *testing.T) {
	s := newFakeServer(t)
	o := s.options()
	addr, dialed := o.Addrs[0], 0
	o.Addrs, o.Operations, o.Znodes, o.Connections = []string{"nowhere:1"}, 10, 10, 2
	var mu sync.Mutex
	o.Dial = func(ctx context.Context, network, asked string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if dialed++; asked != "nowhere:1" {
			t.Errorf("dials %s", asked)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	_, err := Run(t.Context(), o)
	if err := errors.Join(err, Fill(t.Context(), o), Answers(t.Context(), o, "/bench"), Clean(t.Context(), o)); err != nil || dialed != 2+3 {
		t.Errorf("%d connections: %v", dialed, err)
	}
}

func TestRefusalsAreCounted(t *testing.T) {
	s := newFakeServer(t)
	s.answer = func(q *zk.Request) (zk.Code, *zk.Result) { return zk.ErrNoNode, nil }
	o := s.options()
	o.Operations = 100
	r, err := Run(t.Context(), o)
	if err != nil || r.Refused != 100 || r.FirstCode != zk.ErrNoNode {
		t.Errorf("%+v, %v", r, err)
	}
	if err := Fill(t.Context(), o); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("fill: %v", err)
	}
}

func TestFillAndTreeMakeAllZnodes(t *testing.T) {
	s := newFakeServer(t)
	o := s.options()
	o.Znodes = 3000
	if err := Fill(t.Context(), o); err != nil || s.seen[zk.OpCreate] != 3001 || !s.paths["/bench/d000002999"] {
		t.Errorf("fill: %v %v", s.seen, err)
	}
	last, err := Tree(t.Context(), o, 2500)
	if err != nil || last != "/bench/t000002/n000499" || s.seen[zk.OpCreate] != 3001+1+3+2500 || !s.paths[last] {
		t.Errorf("tree: %s %v %v", last, s.seen, err)
	}
}

func TestAConnectionThatEndsIsAnError(t *testing.T) {
	s := newFakeServer(t)
	o := s.options()
	o.Addrs = []string{"127.0.0.1:1"}
	if _, err := Run(t.Context(), o); err == nil {
		t.Error("nobody listens, and all went well")
	}
	ctx, cancel := context.WithCancel(t.Context())
	o = s.options()
	o.Duration = time.Minute
	s.answer = func(*zk.Request) (zk.Code, *zk.Result) {
		cancel()
		return zk.OK, &zk.Result{Op: zk.OpGetData}
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled run: %v", err)
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	good := Options{Addrs: []string{"h:1"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for text, change := range map[string]func(*Options){
		"no server":    func(o *Options) { o.Addrs = nil },
		"connections":  func(o *Options) { o.Connections = ConnectionsMax + 1 },
		"in-flight":    func(o *Options) { o.InFlight = -1 },
		"data-bytes":   func(o *Options) { o.DataBytes = DataBytesMax + 1 },
		"znodes":       func(o *Options) { o.Znodes = ZnodesMax + 1 },
		"read-percent": func(o *Options) { o.ReadPercent = 101 },
		"in flight":    func(o *Options) { o.Connections, o.InFlight = 1000, 60000 },
		"negative":     func(o *Options) { o.Duration = -1 },
		"prefix":       func(o *Options) { o.Prefix = "/" },
		"no workload":  func(o *Options) { o.Workload = "x" },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestQuantilesAreNearTheExactOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h, half Histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		if i%2 == 0 {
			h.Add(d, 1)
		} else {
			half.Add(d, 1)
		}
	}
	h.Merge(&half)
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := all[max(0, int(q*float64(len(all)))-1)]
		got := h.Quantile(q)
		if float64(got) < 0.99*float64(exact)-1 || float64(got) > 1.05*float64(exact)+1 {
			t.Errorf("quantile %v is %v, exactly %v", q, got, exact)
		}
	}
	if h.Max() != all[len(all)-1] || h.Count() != 20_000 || new(Histogram).Quantile(0.5) != 0 {
		t.Errorf("max %v, count %d", h.Max(), h.Count())
	}
	for d := time.Duration(1); d > 0; d *= 2 {
		for _, v := range []time.Duration{d - 1, d, d + 1} {
			if i := bucketOf(v); v > upperEdge(i) || i > 0 && v <= upperEdge(i-1) {
				t.Errorf("%d is in bucket %d up to %d", v, i, upperEdge(i))
			}
		}
	}
}
