package election

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// outcome is how the function of the last leadership ended.
type outcome struct {
	token    Token
	err      error
	panicked bool
	panic    any
	stack    []byte
}

var errGoexit = errors.New("the function ended its goroutine (runtime.Goexit)")

// call runs the function and records the outcome, however the function ends.
func call(ctx context.Context, lead Leadership, function func(context.Context, Leadership) error,
	report func(outcome)) {
	result := outcome{token: lead.Token(), err: errGoexit}
	returned := false
	defer func() {
		if value := recover(); !returned && value != nil {
			result.panicked, result.panic, result.stack = true, value, debug.Stack()
		}
		report(result)
	}()
	result.err = function(ctx, lead)
	returned = true
}

// own returns the function's error, unless it only repeats why the function was told to
// end.
func (o outcome) own() error {
	for _, told := range []error{context.Canceled, context.DeadlineExceeded, ErrResigned, ErrTransferred, ErrLost} {
		if errors.Is(o.err, told) {
			return nil
		}
	}
	return o.err
}

// repanic repeats a panic of the function in the goroutine of Run.
func (o outcome) repanic() {
	if o.panicked {
		panic(fmt.Sprintf("election: the leader's function panicked: %v\n%s", o.panic, o.stack))
	}
}
