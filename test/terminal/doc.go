// Package terminal drives the pages that conclave shows on a terminal as a person does: its
// test, under the build tag interop, starts three servers and types into tmux.
package terminal
