// Package supervise runs a command while a candidate leads, and not a moment longer.
//
// Run takes an Elector and a command, and returns an exit code. Two processes watch over the
// command, independently of each other:
//
//	supervisor   campaigns, renews, forwards signals (this process)
//	  guardian   the same binary again, in a session of its own: starts the
//	             hooks and the command and adopts all their orphans
//	    command  in a session of its own, with the lock files inherited
//
// What always holds on Linux:
//
//	supervise-S1  The election is released only when the command and all its descendants are gone,
//	              including those that made a session of their own.
//	supervise-S2  If the supervisor dies, in whatever way, the command ends too: the guardian sees
//	              its pipe close.
//	supervise-S3  If the supervisor is frozen, the command ends too: the guardian knows until when
//	              the leadership is proved, on a clock that counts suspension, and kills the
//	              command in time by itself. If the guardian is stopped as well, a kernel timer,
//	              which it sets whenever it runs, continues it.
//	supervise-S4  If the guardian dies, the command ends too (parent-death signal), and the
//	              supervisor, which inherits the orphans, kills the rest. If the timer does not
//	              continue a stopped guardian, the supervisor does so after two leases, and kills
//	              it after four.
//	supervise-S5  If the backend has lock files, the guardian and every descendant that did not
//	              close them hold the lock. So nobody else leads even if supervisor and guardian
//	              are killed at the same time.
//
//	supervise-S6  OnLost runs once for every leadership for which OnElected was started, whatever
//	              ended it, after all processes are gone (supervise-S1). The guardian runs it, or
//	              the supervisor if the guardian died before. It does not run only if both are
//	              killed at the same time, or one of them is killed between announcing the hook
//	              and starting it. It never runs twice.
//
// The package cannot kill what it has no permission to kill (set-user-id programs) or what the
// kernel does not let die: Options.EndLimit of the Elector says how long such a process keeps the
// election. And with a store that expires leases, nothing enforces supervise-S2 to supervise-S4
// while neither supervisor nor guardian can run. Only the token protects if:
//
//   - both are killed at the same instant; or
//   - the guardian is killed while the supervisor is stopped: the command dies, but its
//     descendants live on; or
//   - the supervisor is killed or stopped while the guardian is held by something that SIGCONT
//     does not end (a debugger, a control-group freezer that does not include the command), is
//     stopped whenever it is continued, or is stopped and has no timer: the kernel may refuse one
//     (ulimit -i), which is reported to OnRemark.
//
// Without Linux's subreaper, only the process group can be found.
//
// What a command has started through another program (systemd-run, a container engine, cron,
// another host) is not a descendant: it is neither found nor ended.
//
// A command must stay in the foreground: when its first process ends, the processes that it
// leaves behind are ended too. A supervisor that is stopped (Ctrl-Z) loses the leadership when
// its lease runs out. If it holds a lock file and stays stopped, it is then killed, because
// otherwise nobody else could ever lead.
//
// Run takes over the process: it handles signals and reaps orphans, so it may be the first
// process of a container. Call it from main, as `conclave run` does.
package supervise

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/conclave-project/conclave/election"
)

// Exit codes of Run itself. All others are those of the command: its exit code, or 128 plus the
// number of the signal that ended it.
const (
	// ExitError: the election could not be held; the error says why.
	ExitError = 1
	// ExitLost: the leadership was lost or given up (resigned, transferred, unhealthy) and the
	// command stopped. It is EX_TEMPFAIL of sysexits.h, "try again later", on which a service
	// manager should start the process again. No shell, signal or common program uses it.
	ExitLost = 75
	// ExitWaited: this candidate was not elected within Command.Wait, or, with Command.Try,
	// another one leads. It is EX_UNAVAILABLE of sysexits.h.
	ExitWaited = 69
	// ExitNotExecutable and ExitNotFound: the command could not be started. The codes are those of
	// shells.
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

// GraceDefault is the time between SIGTERM and SIGKILL, and HookLimitDefault is the time that a
// hook may take.
const (
	GraceDefault     = 10 * time.Second
	HookLimitDefault = 10 * time.Second
)

// ErrOnElected matches the error of Run if Command.OnElected did not exit with code 0 within
// Command.HookLimit.
var ErrOnElected = errors.New("on-elected")

// ErrSystem matches the error of Run on a system where a command cannot be supervised, such as
// Windows.
var ErrSystem = errors.New("this system is not supported: it lacks signals and process groups")

// Command is what to run while leading. It inherits the lock files of the backend, if there are
// any, from descriptor 3 on. It need not use them, but must not close them.
type Command struct {
	// Args are the program and its arguments; the program is looked up in PATH.
	Args []string
	// Dir is the working directory; empty means the current one.
	Dir string
	// Env is the environment; nil means that of this process. Run adds CONCLAVE_TOKEN,
	// CONCLAVE_ELECTION, CONCLAVE_ID and CONCLAVE_DEADLINE. The deadline, in seconds since boot as
	// in /proc/uptime, is the time until which the leadership was proved when this turn began.
	// Renewals extend it.
	Env []string
	// Grace is how long the command may take to end when it is told to while the leadership
	// holds. If the leadership is being lost, it has at most the Grace of the election's Options.
	// Default GraceDefault.
	Grace time.Duration
	// Stdin, Stdout, Stderr are those of the command; nil means that of this process.
	Stdin, Stdout, Stderr *os.File

	// OnElected and OnLost, if not empty, are run by /bin/sh before the command starts and after
	// it and all its descendants have gone. Their environment is that of the command with
	// CONCLAVE_EVENT, "elected" or "lost", and for OnLost CONCLAVE_REASON: the text of
	// election.Reason, or "killed" when this process was. Their output goes to Stderr, and
	// processes that they leave behind are ended.
	//
	// OnElected must exit with code 0; otherwise the command is not started and the leadership is
	// released. A lost leadership ends the hook as it ends the command. OnLost delays the
	// release; if the leadership was lost without warning, another candidate may already lead
	// while it runs.
	OnElected, OnLost string
	// HookLimit is how long a hook may take before it is killed. Default HookLimitDefault.
	HookLimit time.Duration
	// Health, if not nil, is the check that was passed to the Elector as Options.Health. Run
	// keeps it from running while it searches for processes that must not outlive a leadership.
	Health *Health
	// Wait is how long to wait for the first leadership; zero means forever.
	Wait time.Duration
	// Try makes Run call Elector.Try and not wait while another candidate leads: it then ends
	// with ExitWaited and an error that matches election.ErrHeld.
	Try bool
	// OnRemark, if not nil, is called, one call at a time, when something goes wrong with a hook,
	// or cannot be started, and the run goes on. A call that does not return delays only the end
	// of Run; while 16 remarks wait, further ones are dropped.
	OnRemark func(error)
}

// Run campaigns, runs the command while leading, and returns the exit code for this process, with
// an error if there is something to report.
//
// SIGTERM, SIGINT and SIGQUIT are passed on to the command and then end the run, with SIGKILL
// after the grace; the end of the context does the same, with SIGTERM. SIGHUP, SIGUSR1, SIGUSR2,
// SIGWINCH and SIGCONT are only passed on; while the candidate waits, SIGHUP ends the run and the
// others do nothing. If this process was started with SIGHUP or SIGINT ignored (nohup), they stay
// ignored, here and by the command. SIGTERM, SIGINT or SIGQUIT a second or more after the command
// has gone ends Run even if the store has not confirmed the release of the election, which then
// expires.
//
// Unless the Elector was made with Once, nothing else ends the run: after a command that ends or
// cannot be started, or a lost leadership, Run campaigns again.
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
