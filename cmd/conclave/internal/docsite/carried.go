//go:build !labcarried

package docsite

// carried is empty: the pages are made on demand.
var carried []byte
