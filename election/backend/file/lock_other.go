//go:build !unix

package file

import (
	"errors"
	"os"

	"github.com/conclave-project/conclave/election"
)

var errNoFlock = election.Permanent(errors.New(
	"file: this system has no lock that children inherit, so no election in a directory: use a store, for example zk://host:2181"))

// hasLocks fails on this system. New calls it before it makes anything: a directory cannot be
// synced here either, and that error would only say that access was denied.
func hasLocks() error { return errNoFlock }

func tryLock(*os.File) (bool, error) { return false, errNoFlock }

func tryShare(*os.File) (bool, error) { return false, errNoFlock }

func numbers(os.FileInfo) string { return "" }
