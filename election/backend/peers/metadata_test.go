package peers_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/conclave-project/conclave/algo/registry"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/peers"
)

// bytesListener counts the bytes that are written on the connections it accepts.
type bytesListener struct {
	net.Listener
	bytes *atomic.Int64
}

func (l bytesListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return bytesConn{conn, l.bytes}, err
}

type bytesConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c bytesConn) Write(p []byte) (int, error) {
	c.bytes.Add(int64(len(p)))
	return c.Conn.Write(p)
}

func described(id string, size int) election.Claim {
	c := claim("x", id, 0)
	c.Metadata = bytes.Repeat([]byte{0xff}, size)
	return c
}

func leadsWith(size int) func(election.View, error) bool {
	return func(v election.View, err error) bool {
		return err == nil && v.Leader == "big" && len(v.Metadata) == size
	}
}

// TestMetadataGoesToAMemberOnce: neither heartbeats nor other messages about the
// election carry it again.
func TestMetadataGoesToAMemberOnce(t *testing.T) {
	t.Parallel()
	var written atomic.Int64
	g := found(t, 3, func(o *peers.Options) {
		patient(o)
		if o.ID == "c" { // both others dial c
			o.Listener = bytesListener{o.Listener, &written}
		}
	})
	grant := acquire(t, g[2], described("big", election.MetadataMax))
	await(t, g[0], "x", leadsWith(election.MetadataMax))
	await(t, g[1], "x", leadsWith(election.MetadataMax))
	before := written.Load()
	for range 10 { // each changes, twice, what the leader's member says
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		waits := claim("x", "small", 0)
		ended := make(chan struct{})
		go func() {
			_, _ = g[0].Acquire(ctx, waits)
			close(ended)
		}()
		await(t, g[1], "x", func(v election.View, err error) bool { return v.Waits("small") })
		cancel()
		<-ended
		await(t, g[1], "x", func(v election.View, err error) bool { return len(v.Waiters) == 0 })
		var err error
		if grant, err = g[2].Renew(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
	}
	if more := written.Load() - before; more > 4*election.MetadataMax {
		t.Errorf("its member wrote %d bytes more", more)
	}
	await(t, g[1], "x", leadsWith(election.MetadataMax))
}

// TestMetadataIsToldToAMemberThatComesBack although nothing has changed in the meantime.
func TestMetadataIsToldToAMemberThatComesBack(t *testing.T) {
	g := found(t, 3, patient)
	acquire(t, g[2], claim("first", "c", 0)) // the group is founded: otherwise it would wait for all
	g[0].Cut()
	acquire(t, g[2], described("big", 100))
	await(t, g[1], "x", leadsWith(100))
	g[0].Heal()
	await(t, g[0], "x", leadsWith(100))
}

// TestEveryAlgorithmShowsMetadata, including those that may elect two.
func TestEveryAlgorithmShowsMetadata(t *testing.T) {
	t.Parallel()
	for _, algorithm := range registry.All() {
		t.Run(algorithm.Name, func(t *testing.T) {
			g := found(t, 3, func(o *peers.Options) { o.Algorithm, o.Lease = algorithm.Name, longer })
			acquire(t, g[2], described("big", 100))
			await(t, g[0], "x", leadsWith(100))
		})
	}
}
