// Command conclave is the server, the leader-election tools and the command-line client in
// one binary.
//
// Its behaviour is in cmd/conclave/internal/command. It does not link the SDK of any store:
// for a store that needs an SDK it executes conclave-stores, the same program linked with
// all of them.
package main

import (
	"os"

	"github.com/conclave-project/conclave/cmd/conclave/internal/command"
)

func main() { os.Exit(command.Main(nil, nil)) }
