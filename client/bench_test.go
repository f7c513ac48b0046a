package client

import (
	"net"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// BenchmarkPipelined measures what a request costs the client itself, with 64
// requests in flight to a server that does nothing.
func BenchmarkPipelined(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	f := &fake{}
	go f.serve(listener)
	c, err := Dial(b.Context(), listener.Addr().String(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := c.Delete(b.Context(), "/a", -1); err != nil {
				b.Error(err)
				return
			}
		}
	})
	if n := f.seen(zk.OpDelete); n < b.N {
		b.Errorf("%d of %d requests were seen", n, b.N)
	}
	b.StopTimer()
	c.Close()
}
