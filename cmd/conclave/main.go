// Command conclave is the server, the leader-election tools and the client of
// the command line, in one binary.
//
// What it does is in cmd/conclave/internal/command. It links no store's SDK: for
// a store that needs one it becomes conclave-stores, which is the same with all
// of them.
package main

import (
	"os"

	"github.com/conclave-project/conclave/cmd/conclave/internal/command"
)

func main() { os.Exit(command.Main(nil, nil)) }
