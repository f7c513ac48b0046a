// Package zkcli compares the shell of conclave with Apache's zkCli.sh: its tests, under the
// build tag interop, run the same lines with both, each on a server of its own, and list
// every line of the answers that differs.
package zkcli
