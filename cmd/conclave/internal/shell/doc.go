// Package shell implements the command lines of `conclave sh`: it splits and completes a
// line, runs its command in a session with ZooKeeper's servers, and prints the answer as
// ZooKeeper's own zkCli.sh does.
//
// Each line yields bytes on two streams and an exit code; a completion yields what a person
// may type next. What always holds:
//
//   - A line is split as zkCli.sh splits it, and the commands of zkCli.sh 3.9 take the same
//     options and give the same answers; docs/shell.md lists the differences.
//   - Names and data that others wrote do not move the cursor of a terminal: see Safe.
//   - A completion lists only directories of bounded size, in bounded time.
//   - The history contains no credentials: see History.
//
// The package does not know terminals and does not read input: package command does both.
// One goroutine follows each watch and each session; Close ends them.
package shell
