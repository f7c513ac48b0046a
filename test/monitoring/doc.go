// Package monitoring tests the contents of docs/monitoring with Prometheus: its test, under
// the build tag interop, starts three servers and a Prometheus that scrapes them, and runs
// all queries of the alerts, the dashboard and the dashboard for Apache ZooKeeper.
package monitoring
