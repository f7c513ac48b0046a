// Package integration holds the tests of package fence on real databases and
// object stores, and the examples that need their clients. Nothing imports it:
// it is a module of its own so that a program that uses a fence does not have
// to resolve any of those clients.
package integration
