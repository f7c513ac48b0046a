//go:build !unix

package file

import (
	"errors"
	"os"

	"github.com/conclave-project/conclave/election"
)

var errNoFlock = election.Permanent(errors.New(
	"file: this system has no lock that children inherit; use a store, for example zk://host:2181"))

func tryLock(*os.File) (bool, error) { return false, errNoFlock }

func tryShare(*os.File) (bool, error) { return false, errNoFlock }

func numbers(os.FileInfo) string { return "" }
