package loadgen

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/conclave-project/conclave/zk"
)

// The limits of Options.
const (
	ConnectionsMax = 10_000
	InFlightMax    = 1 << 16
	DataBytesMax   = 1 << 19
	ZnodesMax      = 100_000_000
	bufferBytesMax = 1 << 30
)

// defaultSlack is how long after Options.Duration the last replies may arrive.
const defaultSlack = 30 * time.Second

// A Workload is the kind of requests to send.
type Workload string

// The workloads. The ones that read or set use the Options.Znodes znodes that Fill has
// created, in a scattered order.
const (
	Get    Workload = "get"    // getData
	Set    Workload = "set"    // setData, any version
	Create Workload = "create" // persistent znodes, below one parent per connection
	Mix    Workload = "mix"    // Options.ReadPercent of getData, the rest setData
)

// Workloads lists all workloads, for help texts.
var Workloads = []Workload{Get, Set, Create, Mix}

// Options describe the load. Addrs is required; other zero fields mean the default.
type Options struct {
	// Addrs are the servers, as host:port; connections go to them in turn.
	Addrs []string

	// Dial opens a connection, for example with TLS; nil dials TCP. It is called
	// concurrently.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Workload is the kind of requests; default Get.
	Workload Workload

	// Connections is the number of connections, each with its own session; default 8, at
	// most ConnectionsMax.
	Connections int

	// InFlight is the window of each connection; default 64, at most InFlightMax.
	InFlight int

	// DataBytes is the size of a znode's data; default 100, at most DataBytesMax.
	DataBytes int

	// Znodes is the number of znodes to read and set; default 10,000.
	Znodes int

	// ReadPercent is the share of reads in Mix, 0 to 100; default 70.
	ReadPercent int

	// Duration is how long requests are sent; default 10 s.
	Duration time.Duration

	// Operations ends the run earlier, after about this many operations; 0 is no limit.
	Operations int64

	// Prefix is the znode above everything that is created; default "/bench".
	Prefix string
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&o.Connections, 8)
	set(&o.InFlight, 64)
	set(&o.DataBytes, 100)
	set(&o.Znodes, 10_000)
	set(&o.ReadPercent, 70)
	if o.Workload == "" {
		o.Workload = Get
	}
	if o.Duration == 0 {
		o.Duration = 10 * time.Second
	}
	if o.Prefix == "" {
		o.Prefix = "/bench"
	}
	return o
}

// Validate returns an error that says what is wrong with the options, and what would be
// right.
func (o Options) Validate() error {
	o = o.withDefaults()
	if len(o.Addrs) == 0 {
		return fmt.Errorf("loadgen: no server given: say host:port")
	}
	for _, f := range []struct {
		name             string
		value, low, high int
	}{
		{"connections", o.Connections, 1, ConnectionsMax},
		{"in-flight", o.InFlight, 1, InFlightMax},
		{"data-bytes", o.DataBytes, 0, DataBytesMax},
		{"znodes", o.Znodes, 1, ZnodesMax},
		{"read-percent", o.ReadPercent, 0, 100},
	} {
		if f.value < f.low || f.value > f.high {
			return fmt.Errorf("loadgen: %s is %d: say %d to %d", f.name, f.value, f.low, f.high)
		}
	}
	if bytes := int64(o.Connections) * int64(o.InFlight) * int64(o.DataBytes+100); bytes > bufferBytesMax {
		return fmt.Errorf("loadgen: %d connections with %d requests of %d bytes in flight need %d MiB, limit %d: ask for fewer",
			o.Connections, o.InFlight, o.DataBytes, bytes>>20, bufferBytesMax>>20)
	}
	if o.Duration < 0 || o.Operations < 0 {
		return fmt.Errorf("loadgen: a duration or a number of operations is negative")
	}
	if err := zk.ValidatePath(o.Prefix); err != nil || o.Prefix == zk.RootPath {
		return fmt.Errorf("loadgen: prefix %q must be a path below the root", o.Prefix)
	}
	switch o.Workload {
	case Get, Set, Create, Mix:
		return nil
	}
	var names []string
	for _, w := range Workloads {
		names = append(names, string(w))
	}
	return fmt.Errorf("loadgen: no workload %q: say one of %s", o.Workload, strings.Join(names, ", "))
}
