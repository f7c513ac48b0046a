// Package metrics exports a server's metrics to Prometheus, under the names of ZooKeeper 3.9.
//
// It reads the server at each scrape; the server counts nothing extra for that
// (server.Status, server.Meters). A scrape returns the rows of the table (names.go) that
// are served; docs/metrics.md is generated from the table.
//
//	names.go      every name that ZooKeeper has: served, or why not
//	own.go        names of our own beside, and one histogram for each distribution of times
//	collector.go  a scrape
//	window.go     quantiles of the last ten minutes
//	space_*.go    how much space a disk has
//	handler.go    what answers scrapes
//
// What always holds:
//
//	metrics-M1  Every name of ZooKeeper 3.9.5 has a row.
//	metrics-M2  A scrape of a server that has ended is an error, not zeros.
package metrics
