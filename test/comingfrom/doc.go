// Package comingfrom tests the pages of docs/coming-from: each program that they show is a
// file that is compiled. Those of Go are in programs, a module of its own with the clients
// of the stores; those of Java are compiled by "make interop".
package comingfrom
