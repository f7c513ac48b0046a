// Package metrics tells Prometheus how a server is, under the names of ZooKeeper 3.9.
//
// What goes in is a server; it is asked at each scrape, and counts nothing for it but what
// it counts anyway (server.Status, server.Meters). Out come the rows of the table
// (names.go) that are served; docs/metrics.md is made from it.
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
//	metrics-M2  A scrape of a server that has ended is an error, and no zeros.
package metrics
