// Package shell is what `conclave sh` does with a line: it splits and completes it, runs the
// command that it names on a session with ZooKeeper's servers, and prints the answer as
// ZooKeeper's own zkCli.sh prints it.
//
// In go lines, out come bytes on two streams, an exit code, and what a person may type next.
// What always holds:
//
//   - A line is split as zkCli.sh splits it, and the commands that zkCli.sh 3.9 has take its
//     options and give its answers; where they differ, docs/shell.md says how.
//   - Names and data that others wrote move no cursor of a terminal: see Safe.
//   - A completion asks for no more than a bounded directory, in a bounded time.
//   - No credential comes into the history: see History.
//
// It knows no terminal and reads no input: package command joins it with both. Goroutines
// follow the watches and the session; Close ends them.
package shell
