// Package applications runs programs that are built on ZooKeeper on an ensemble of three servers of
// Conclave: each does its own work while the ensemble's leader is killed, and what it had acknowledged
// is there afterwards.
//
// All of it is in tests under the build tag applications: "make applications". Maven downloads the
// programs, by the projects in pom. APPLICATIONS_SERVER names another server to run them on, "apache-VERSION",
// which shows what a test finds on Apache's.
package applications
