// Package terminal drives conclave's terminal pages as a person does: its test, under the
// build tag interop, starts three servers and types into tmux.
package terminal
