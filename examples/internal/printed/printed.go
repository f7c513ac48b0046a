// Package printed runs an example in a test and reads what it prints.
package printed

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// Lines runs a program and returns what it prints, line by line, until the test
// ends or stop is called.
func Lines(t *testing.T, run func(ctx context.Context, out io.Writer) error) (printed <-chan string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, out)
		out.Close()
		if ctx.Err() != nil {
			err = nil // it was told to end
		}
		ended <- err
	}()
	all := make(chan string, 1000)
	go func() {
		defer close(all)
		for s := bufio.NewScanner(in); s.Scan(); {
			all <- s.Text()
		}
	}()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return all, stop
}

// Await returns the next line that contains the text.
func Await(t *testing.T, printed <-chan string, text string) string {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-printed:
			if !ok {
				t.Fatalf("it ended without printing %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-late:
			t.Fatalf("it does not print %q", text)
		}
	}
}
