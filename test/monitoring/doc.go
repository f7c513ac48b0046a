// Package monitoring proves what docs/monitoring has against Prometheus: its test, under the
// build tag interop, starts three servers and a Prometheus that scrapes them, and asks it for
// everything that the alerts, the dashboard and the dashboard for Apache ZooKeeper ask for.
package monitoring
