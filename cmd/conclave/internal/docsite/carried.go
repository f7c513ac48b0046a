//go:build !labcarried

package docsite

// carried is empty: the pages are made when they are wanted.
var carried []byte
