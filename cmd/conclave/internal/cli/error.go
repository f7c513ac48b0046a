package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

// Error is an error with a hint about what to do.
type Error struct {
	Err  error
	Hint string
	Exit int
}

// Error returns the text of Err.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Failed returns an error with a hint.
func Failed(err error, hint string) error { return &Error{err, hint, ExitFailed} }

// NotFound returns an error that says that the object of a command does not exist.
func NotFound(err error, hint string) error { return &Error{err, hint, ExitNotFound} }

// Usage returns an error in the way a command was called.
func Usage(hint, format string, args ...any) error {
	return &Error{fmt.Errorf(format, args...), hint, ExitUsage}
}

// Report prints an error and returns the exit code; nil prints nothing.
func Report(w io.Writer, err error) int {
	if err == nil {
		return ExitOK
	}
	hint, exit := explain(err)
	text := shown(err)
	name := paint(w, red, "conclave:") + " "
	fmt.Fprintf(w, "%s%s\n%s %s\n", name, strings.ReplaceAll(text, "\n", "\n"+name), paint(w, faint, "hint:"), hint)
	return exit
}

// ReportJSON prints an error as one line of JSON and returns the exit code.
func ReportJSON(w io.Writer, err error) int {
	if err == nil {
		return ExitOK
	}
	hint, exit := explain(err)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(struct { // if the output is closed, the exit code still tells
		Error string `json:"error"`
		Hint  string `json:"hint"`
		Exit  int    `json:"exit"`
	}{shown(err), hint, exit})
	return exit
}

// Describe returns the text that Report prints for an error that is not nil.
func Describe(err error) (text, hint string, exit int) {
	hint, exit = explain(err)
	return shown(err), hint, exit
}

// shown returns the text of an error for people, without the names of packages.
func shown(err error) string {
	text := strings.TrimRight(err.Error(), "\n")
	for _, name := range []string{"supervise: ", "client: ", "file: "} {
		text = strings.TrimPrefix(text, name)
	}
	return text
}

// explain finds the hint and the exit code of an error.
func explain(err error) (hint string, exit int) {
	var own *Error
	if errors.As(err, &own) {
		return own.Hint, own.Exit
	}
	var refused *client.Error
	if errors.As(err, &refused) && refused.Outcome == client.Unknown {
		return "the write may or may not have happened: check with `conclave stat` before you repeat it", ExitNoServer
	}
	for _, known := range hints {
		if errors.Is(err, known.err) {
			return known.hint, known.exit
		}
	}
	return "conclave COMMAND --help shows what the command expects; docs/commands.md explains it", ExitFailed
}

// hints are what to do about the errors of servers and of the client.
var hints = []struct {
	err  error
	hint string
	exit int
}{
	{zk.ErrNoNode, "`conclave ls` of the parent shows what is there; create -p makes missing parents", ExitNotFound},
	{zk.ErrNodeExists, "`conclave set` changes the data of a znode that exists", ExitFailed},
	{zk.ErrNotEmpty, "rm -r deletes a znode and everything below it", ExitFailed},
	{zk.ErrBadVersion, "somebody else changed it: read it again with `conclave stat`, or leave --version out", ExitFailed},
	{zk.ErrNoAuth, "give the credential that the ACL asks for: --auth digest:USER:PASSWORD, --jaas FILE for sasl, or --tls-cert for x509", ExitFailed},
	{zk.ErrAuthFailed, "the server does not know the scheme or refuses the credential: --auth digest:USER:PASSWORD, or --jaas FILE", ExitFailed},
	{zk.ErrSessionClosedRequireSASL, "the server requires authentication: --auth digest:USER:PASSWORD, a certificate with zk+tls:// and --tls-cert, or --jaas FILE", ExitFailed},
	{zk.ErrInvalidACL, "write an ACL as world:anyone:cdrwa, digest:USER:HASH:cdrwa or auth::cdrwa (with --auth)", ExitUsage},
	{zk.ErrNoChildrenForEphemerals, "choose a parent that is not ephemeral", ExitFailed},
	{zk.ErrQuotaExceeded, "the quota of a parent is used up: delete something, or raise it with `conclave quota set`", ExitFailed},
	{zk.ErrNotReadOnly, "the server accepts no writes now: its disk may be full (`conclave status`), or it is partitioned from its ensemble", ExitFailed},
	{zk.ErrUnimplemented, "the server does not support this operation: TTL znodes need extendedTypesEnabled=true there", ExitFailed},
	{zk.ErrReconfigDisabled, "set reconfigEnabled=true in the server's configuration", ExitFailed},
	{client.ErrRequestTooLong, "znodes are meant to be small: store a reference to larger data, or split it", ExitFailed},
	{client.ErrReplyTooLong, "`conclave stat` shows how many children and bytes the znode has; no more than 256 MiB come in one reply", ExitFailed},
	{zk.ErrBadArguments, "paths begin with / and have no empty, . or .. segments; conclave COMMAND --help shows the rest", ExitUsage},
	{zk.ErrSessionExpired, "the server forgot the session because it received nothing for too long: try again", ExitNoServer},
	{zk.ErrConnectionLoss, NoServerHint, ExitNoServer},
	{context.DeadlineExceeded, NoServerHint, ExitNoServer},
	{fs.ErrPermission, "run it as the user who owns the files", ExitFailed},
	{context.Canceled, "it was interrupted: run it again", ExitFailed},
}

// NoServerHint is what to do when no server answers.
const NoServerHint = "no server answers: name one with --server HOST:PORT or CONCLAVE_STORE, or start one with `conclave dev`"
