package command

import "runtime/debug"

// crashBySignal has a crash of this process, or a SIGABRT of a service manager's watchdog, end it by a signal, once it
// has told where it was. Go's runtime ends it with 2 otherwise, the code of what is refused, after which service
// managers start nothing again.
func crashBySignal() { debug.SetTraceback("crash") }
