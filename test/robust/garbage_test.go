//go:build linux && robust

package robust

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/test/probe"
	"github.com/conclave-project/conclave/test/servers"
)

const (
	silentConns = 5_000

	// connBytesMax is the most memory that a connection without a useful request may use.
	connBytesMax = 16 << 10

	// healthyWithin is how soon a healthy client must be answered meanwhile.
	healthyWithin = 5 * time.Second

	// frameLimit is the longest permitted frame: jute.maxbuffer.
	frameLimit = 0xfffff
)

func TestSilentConnectionsAndHalfFramesHoldLittle(t *testing.T) {
	half := append(binary.BigEndian.AppendUint32(nil, frameLimit), "half a frame"...)
	handshake := probe.ConnectRequest(sessionTimeout, 0, make([]byte, 16))
	request := probe.Request(1, probe.OpSetData, nil)
	for _, tt := range []struct {
		name string
		says []byte
	}{
		{"silent", nil},
		{"half a length", half[:2]},
		{"half a handshake", handshake[:20]},
		{"a long frame begun before the handshake", half},
		{"a long frame begun in a session", append(append([]byte{}, handshake...), half...)},
		{"half a request in a session", append(append([]byte{}, handshake...), request[:9]...)},
	} {
		// Apache allocates memory for a frame when it reads the length: five thousand of
		// these fill a heap of 1.5 GiB.
		if len(tt.says) > 8 && !promises(kind(t)) {
			continue
		}
		// Each kind uses a new server: memory allocated for one kind would be reused for
		// the next, and hide its cost.
		t.Run(tt.name, func(t *testing.T) { holdLittle(t, tt.says) })
	}
}

func holdLittle(t *testing.T, says []byte) {
	s := start(t)
	warm(t, s.Addr)
	healthy := keepHealthy(t, s)
	each := holdConns(t, s, silentConns, says)
	t.Logf("%d connections, %d bytes each", silentConns, each)
	if promises(s.Kind) && each > connBytesMax {
		t.Errorf("a connection holds %d bytes, more than %d", each, connBytesMax)
	}
	healthy.finish(t)
	checkAlive(t, s)
}

// holdConns opens connections that send only the given bytes, and returns the largest cost
// of one for the server while they are open.
func holdConns(t *testing.T, s *servers.Server, count int, says []byte) int64 {
	t.Helper()
	before := rss(t, s)
	conns := make([]net.Conn, count)
	inParallel(t, dialers, count, func(i int) error {
		c, err := net.DialTimeout("tcp", s.Addr, probe.Deadline)
		if err != nil {
			return err
		}
		conns[i] = c
		_, err = c.Write(says)
		return err
	})
	// The last bytes may not have been read yet, so the maximum over two seconds counts.
	most := int64(0)
	for range 20 {
		awaittest.RealTime(100*time.Millisecond, "the server reads them, which only its memory shows")
		most = max(most, rss(t, s)-before)
	}
	for _, c := range conns {
		c.Close()
	}
	return most / int64(count)
}

func TestFramesOfImpossibleLengthEndTheConnection(t *testing.T) {
	s := start(t)
	healthy := keepHealthy(t, s)
	handshake := probe.ConnectRequest(sessionTimeout, 0, make([]byte, 16))
	for _, length := range []uint32{frameLimit + 1, 1 << 24, 1<<31 - 1, 1 << 31, 1<<32 - 1, 0, 7} {
		frame := append(binary.BigEndian.AppendUint32(nil, length), "1234567"[:min(length, 7)]...)
		if length > 0 && length != 7 {
			must(t, closes(s.Addr, frame))
		}
		if err := closes(s.Addr, append(append([]byte{}, handshake...), frame...)); err != nil {
			t.Errorf("length %#x in a session: %v", length, err)
		}
	}
	healthy.finish(t)
	checkAlive(t, s)
}

// closes sends bytes and waits for the end of the connection.
func closes(addr string, says []byte) error {
	c, err := net.DialTimeout("tcp", addr, probe.Deadline)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(healthyWithin)); err != nil {
		return err
	}
	if _, err := c.Write(says); err != nil {
		return nil // closed before everything was written
	}
	_, err = io.Copy(io.Discard, c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%x: the connection stays open", says)
	}
	return nil // its end, or a reset
}

// TestGarbageHarmsNobody sends mutated requests of all kinds. The log contains the seed;
// ROBUST_SEED repeats a run.
func TestGarbageHarmsNobody(t *testing.T) {
	s := start(t)
	healthy := keepHealthy(t, s)
	seed := seedOf(t)
	t.Logf("ROBUST_SEED=%d", seed)
	const conns = 3000
	inParallel(t, dialers, conns, func(i int) error {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		return sendGarbage(s.Addr, garbage(random))
	})
	healthy.finish(t)
	checkAlive(t, s)
	// A server that has survived must still be able to read its own directory.
	s.Crash()
	must(t, s.Restart(t.Context()))
}

func seedOf(t *testing.T) uint64 {
	text := os.Getenv("ROBUST_SEED")
	if text == "" {
		return rand.Uint64()
	}
	var seed uint64
	_, err := fmt.Sscan(text, &seed)
	must(t, err)
	return seed
}

// sendGarbage writes the bytes and reads until either side closes. It is an error only if
// the server no longer accepts connections.
func sendGarbage(addr string, says []byte) error {
	c, err := net.DialTimeout("tcp", addr, probe.Deadline)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		return err
	}
	c.Write(says)          // the server may close at any byte
	io.Copy(io.Discard, c) // until the server closes, or sends nothing more
	return nil
}

// garbage returns a handshake, sometimes invalid, followed by mutated requests.
func garbage(random *rand.Rand) []byte {
	says := probe.ConnectRequest(sessionTimeout, 0, make([]byte, 16))
	if random.IntN(10) == 0 {
		mutate(random, says)
	}
	bodies := validBodies()
	for range 1 + random.IntN(20) {
		op := allOps[random.IntN(len(allOps))]
		body := append([]byte{}, bodies[random.IntN(len(bodies))]...)
		frame := probe.Request(int32(random.IntN(100)), op, body)
		switch random.IntN(8) {
		case 0: // unchanged: a valid body, perhaps of another op
		case 1:
			frame = frame[:random.IntN(len(frame))]
		case 2:
			mutate(random, frame)
		default: // a wrong body in a valid frame is processed furthest
			mutate(random, frame[12:])
		}
		says = append(says, frame...)
	}
	return says
}

// allOps are the numbers of all requests, some neighbouring numbers, and the internal ones
// that no client may send.
var allOps = []int32{-11, -10, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
	22, 23, 100, 101, 102, 103, 104, 105, 106, 107, 108, 1 << 30, -1 << 31}

func validBodies() [][]byte {
	return [][]byte{
		probe.CreateBody("/garbage", []byte("data"), probe.World, probe.Persistent),
		probe.CreateBody("/garbage/s-", nil, probe.World, probe.EphemeralSequential),
		append(probe.CreateBody("/ttl", nil, probe.World, probe.PersistentTTL), 0, 0, 0, 0, 0, 0, 0, 9),
		probe.PathVersionBody("/garbage", -1),
		probe.PathWatchBody("/garbage", true),
		probe.SetDataBody("/garbage", []byte("data"), 0),
		probe.MultiBody(
			probe.Change{Op: probe.OpCreate, Body: probe.CreateBody("/m", nil, probe.World, 0)},
			probe.Change{Op: probe.OpDelete, Body: probe.PathVersionBody("/m", 0)}),
		{0, 0, 0, 0, 0, 0, 0, 6, 'd', 'i', 'g', 'e', 's', 't', 0, 0, 0, 3, 'a', ':', 'b'},
		{0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, '/', 'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{},
	}
}

// mutate changes some bytes, often to values at which decoders fail.
func mutate(random *rand.Rand, b []byte) {
	for range 1 + random.IntN(4) {
		if len(b) == 0 {
			return
		}
		at := random.IntN(len(b))
		switch random.IntN(3) {
		case 0:
			b[at] ^= 1 << random.IntN(8)
		case 1:
			b[at] = byte(random.IntN(256))
		default:
			edges := []uint32{0, 1<<32 - 1, 1<<32 - 2, 1<<31 - 1, 1 << 31, frameLimit, 1 << 16}
			var number [4]byte
			binary.BigEndian.PutUint32(number[:], edges[random.IntN(len(edges))])
			copy(b[at:], number[:])
		}
	}
}
