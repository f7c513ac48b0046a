// Package loadgen puts load on servers that speak ZooKeeper's client protocol,
// and measures their throughput and latency.
//
// Its input is addresses, a workload and a number of connections, each of which
// keeps a window of requests in flight. It reports operations per second,
// latencies and refusals. It is made to cost little itself, because it often
// shares a machine with the server: one goroutine per connection, frames copied
// from a template, everything that fits the window in one write, and only the
// headers of replies decoded.
//
// What always holds:
//
//	loadgen-L1  Every request is answered before Run returns without an error,
//	            and latency counts from the write of a request to the read of
//	            its reply.
//	loadgen-L2  All znodes are below Options.Prefix; nothing else is touched.
//	loadgen-L3  Memory is bounded: Options.Validate refuses sizes above the
//	            limits.
//
// It knows no watches, no ACLs, no TLS and does not reconnect: a connection that
// ends is the end of the run. It sends as fast as it can; for a gentle load, use one
// connection with one request in flight.
package loadgen
