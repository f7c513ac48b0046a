// Package arch holds the tests that keep the tree as ARCHITECTURE.md says it is: layers,
// kinds, package comments, where goroutines start, what the root module requires, and that
// the files named in the documents exist.
//
// It has no code. A package that must break a rule is listed in the tables of
// layout_test.go, with the reason; there is no other exception.
package arch
