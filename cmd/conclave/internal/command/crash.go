package command

import "runtime/debug"

// crashBySignal makes a crash of this process, or a SIGABRT from a service manager's
// watchdog, end it by a signal, after it has printed the stacks. Otherwise Go's runtime
// ends it with code 2, which means a refused command line, and service managers do not
// restart after that.
func crashBySignal() { debug.SetTraceback("crash") }
