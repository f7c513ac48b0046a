//go:build !unix

package server

import "errors"

// polled reports whether a socket's descriptor can be read and written directly.
const polled = false

var errNotPolled = errors.New("sockets are not polled on this system")

func readSocket(uintptr, []byte) (n int, again bool, err error) { return 0, false, errNotPolled }

func socketReady(uintptr) bool { return true }

func socketEnded(uintptr) bool { return false }

func writeSocket(uintptr, []byte) int { return 0 }
