// Command release makes a version of all modules of this tree, in step, and the files for
// download.
//
//	release prepare v0.2.0     checks the API against the last version, sets the
//	                           requirements of the modules on each other, closes
//	                           the section of CHANGELOG.md, commits and tags
//	release api                prints how the API differs from the last version
//	release tidy               go mod tidy in every module
//	release dist v0.2.0 DIR [SYSTEM/MACHINE...]
//	                           the programs for every system, or for the given ones, with
//	                           sums and bills of materials, built twice and compared
//	release packages v0.2.0 DIST DIR
//	                           packages of these programs, which are built first if DIST does
//	                           not exist: archives, .deb and .rpm, an image, the Helm chart,
//	                           a formula, sums
//
// It pushes nothing. It must run in the top directory of the tree.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	w, err := readWorkspace()
	if err != nil {
		return err
	}
	switch what := strings.Join(args[:min(1, len(args))], ""); {
	case what == "prepare" && len(args) == 2:
		return w.prepare(args[1])
	case what == "api" && len(args) == 1:
		return w.printAPI()
	case what == "tidy" && len(args) == 1:
		return w.tidy()
	case what == "dist" && len(args) >= 3:
		return dist(args[1], args[2], args[3:])
	case what == "packages" && len(args) == 4:
		return packages(args[1], args[2], args[3])
	}
	return errors.New("usage: release prepare VERSION | api | tidy | dist VERSION DIR [SYSTEM/MACHINE...] | packages VERSION DIST DIR")
}
