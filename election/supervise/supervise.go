// Package supervise runs a command while a candidate leads, and not a moment
// longer.
//
// In goes an Elector and a command, out comes an exit code. Two processes watch
// over the command, each on its own:
//
//	supervisor   campaigns, renews, forwards signals (this process)
//	  guardian   the same binary again, in a session of its own: starts the
//	             hooks and the command and adopts all their orphans
//	    command  in a session of its own, with the lock files inherited
//
// What always holds on Linux:
//
//	supervise-S1  The election is released only when the command and all its
//	              descendants are gone, also those that made a session of their
//	              own.
//	supervise-S2  A supervisor that dies, whatever the way, takes the command
//	              with it: the guardian sees its pipe close.
//	supervise-S3  A supervisor that is frozen takes it too: the guardian knows
//	              until when the leadership is proved, on a clock that counts
//	              suspension, and kills in time by itself. One that is stopped
//	              as well is continued by a timer of the kernel, which it sets
//	              whenever it runs.
//	supervise-S4  A guardian that dies takes the command with it (parent-death
//	              signal), and the supervisor, which inherits the orphans, kills
//	              the rest. One that the timer does not continue is told to by
//	              the supervisor after two leases, and killed after four.
//	supervise-S5  Where the backend has lock files, the guardian and every
//	              descendant that did not close them hold the lock, so that
//	              nobody else leads even if supervisor and guardian are killed
//	              at once.
//
//	supervise-S6  OnLost runs once for every leadership for which OnElected was
//	              begun, after supervise-S1's "gone", whatever ended it: the
//	              guardian sees to it, and the supervisor if the guardian dies
//	              before. Only if both are killed at once, or one of them in the
//	              moment between saying that the hook begins and starting it, it
//	              does not run. It never runs twice.
//
// It cannot kill what it has no right to kill (set-user-id programs) or what the
// kernel does not let die: Options.EndLimit of the Elector says for how long such
// a process keeps the election. And with a store that expires leases nothing
// enforces supervise-S2 to supervise-S4 while neither supervisor nor guardian can run. Then the
// token alone protects:
//
//   - both are killed at the same instant;
//   - the guardian is killed while the supervisor is stopped: the command dies, its
//     descendants live on;
//   - the supervisor is killed or stopped while the guardian is held by what SIGCONT does
//     not end (a debugger, a freezer of control groups that leaves the command out), is
//     stopped whenever it is continued, or is stopped and has no timer: the kernel may
//     refuse one (ulimit -i), which OnRemark is told.
//
// Without Linux's subreaper the process group is all that can be found.
//
// What a command has started by somebody else's hand (systemd-run, a container
// engine, cron, another host) is no descendant: it is neither found nor ended.
//
// A command stays in the foreground: when its first process ends, those it has
// left behind are ended too. A supervisor that is stopped (Ctrl-Z) loses the
// leadership when its lease runs out; one that holds a lock file and stays
// stopped is then killed, because nobody else could ever lead.
//
// Run takes the process over: signals, and children that are nobody's, so it
// may be the first process of a container. Call it from main, as `conclave run`
// does.
package supervise

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/conclave-project/conclave/election"
)

// Exit codes of Run's own. All others are the command's: its exit code, or 128
// and the number of the signal that ended it.
const (
	// ExitError: the election could not be held; the error says why.
	ExitError = 1
	// ExitLost: the leadership was lost or given up (resigned, transferred,
	// unhealthy) and the command stopped. It is EX_TEMPFAIL of sysexits.h,
	// "try again later": for a service manager the right thing is to start
	// again, and no shell, signal or common program uses it.
	ExitLost = 75
	// ExitWaited: this candidate was not elected within Command.Wait, or with
	// Command.Try another one leads. It is
	// EX_UNAVAILABLE of sysexits.h.
	ExitWaited = 69
	// ExitNotExecutable and ExitNotFound: the command could not be started,
	// with the codes that shells use.
	ExitNotExecutable = 126
	ExitNotFound      = 127
	// exitSignal is added to the number of a signal.
	exitSignal = 128
)

// GuardianArg is the first argument of the process that Run starts from its own
// executable. A program that calls Run must call Guardian when it sees it:
//
//	if len(os.Args) > 1 && os.Args[1] == supervise.GuardianArg {
//		os.Exit(supervise.Guardian())
//	}
const GuardianArg = "guard-leader-command"

// GraceDefault is the time between SIGTERM and SIGKILL, HookLimitDefault the
// time that a hook may take.
const (
	GraceDefault     = 10 * time.Second
	HookLimitDefault = 10 * time.Second
)

// ErrOnElected is what the error of Run is, by errors.Is, if Command.OnElected did not end
// with code 0 within Command.HookLimit.
var ErrOnElected = errors.New("on-elected")

// Command is what to run while leading. It inherits, from descriptor 3 on, the
// lock files of the backend, if it has any: they need not be used, only not be
// closed.
type Command struct {
	// Args are the program and its arguments; the program is looked for in
	// PATH.
	Args []string
	// Dir is the working directory; empty is the present one.
	Dir string
	// Env is the environment, nil that of this process. Added are
	// CONCLAVE_TOKEN, CONCLAVE_ELECTION, CONCLAVE_ID and CONCLAVE_DEADLINE: the
	// seconds since boot, as in /proc/uptime, until which the leadership was
	// proved when this turn began; renewals move it on.
	Env []string
	// Grace is how long the command may take to end when it is told to while
	// the leadership holds. A leadership that is being lost leaves it the
	// Grace of the election's Options at most. Default GraceDefault.
	Grace time.Duration
	// Stdin, Stdout, Stderr are those of the command; nil is that of this
	// process.
	Stdin, Stdout, Stderr *os.File

	// OnElected and OnLost, if not empty, are run by /bin/sh before the command
	// starts and after it and all its descendants have gone. Their environment
	// is that of the command with CONCLAVE_EVENT, "elected" or "lost", and for
	// OnLost CONCLAVE_REASON: the text of election.Reason, or "killed" when
	// this process was. Their output goes to Stderr, and what they leave behind
	// is ended.
	//
	// OnElected must end with code 0, else the command is not started and the
	// leadership is released. A lost leadership ends it as it ends the
	// command. OnLost delays the releasing; when the leadership was lost
	// without warning, another may lead beside it.
	OnElected, OnLost string
	// HookLimit is the time that a hook may take before it is killed. Default
	// HookLimitDefault.
	HookLimit time.Duration
	// Health, if not nil, is the check that the Elector was given as
	// Options.Health, so that it does not run while processes that must not
	// outlive a leadership are searched for.
	Health *Health
	// Wait is how long to wait for the first leadership; zero is
	// without end.
	Wait time.Duration
	// Try does not wait for another leader: it calls Elector.Try, and ends with
	// ExitWaited and an error that matches election.ErrHeld.
	Try bool
	// OnRemark, if not nil, is told of what went wrong with a hook, or could not
	// be started, while the run goes on, one call at a time. One that does not return holds up only
	// the end of Run; remarks that find 16 waiting are dropped.
	OnRemark func(error)
}

// Run campaigns, runs the command while leading, and returns the exit code for
// this process, with an error when there is something to tell.
//
// SIGTERM, SIGINT and SIGQUIT are passed on to the command and then end the
// run, by SIGKILL after the grace; so does the end of the context, with
// SIGTERM. SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH and SIGCONT are only passed on;
// waiting, SIGHUP ends the run and the others do nothing. SIGHUP and SIGINT stay
// ignored, here and by the command, if this process was started so (nohup).
// SIGTERM, SIGINT or SIGQUIT a second or more after the command has gone ends Run though the
// store has not answered that the election is released: it expires there.
//
// Unless the Elector was made with Once, only these end the run: a command that ends or
// cannot be started, or a lost leadership, is followed by another campaign.
func Run(ctx context.Context, elector *election.Elector, command Command) (int, error) {
	if command.Grace <= 0 {
		command.Grace = GraceDefault
	}
	if command.Env == nil {
		command.Env = os.Environ()
	}
	if command.HookLimit <= 0 {
		command.HookLimit = HookLimitDefault
	}
	if command.OnRemark == nil {
		command.OnRemark = func(error) {}
	}
	setDefault(&command.Stdin, os.Stdin)
	setDefault(&command.Stdout, os.Stdout)
	setDefault(&command.Stderr, os.Stderr)
	return run(ctx, elector, command)
}

func setDefault(file **os.File, value *os.File) {
	if *file == nil {
		*file = value
	}
}
