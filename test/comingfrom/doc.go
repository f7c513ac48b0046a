// Package comingfrom tests the pages of docs/coming-from: each program on them is a file
// that is compiled. Go programs are in programs, a separate module that requires the
// clients of the stores; Java programs are compiled by "make interop".
package comingfrom
