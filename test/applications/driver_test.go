//go:build linux && applications

package applications

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// A driver is a program in the directory java that does an application's work and takes commands.
type driver struct {
	*program
	port string
}

// newDriver starts a driver and waits until it takes commands.
func newDriver(p *program) *driver {
	p.t.Helper()
	return &driver{p, p.await(`takes commands at port (\d+)`)[1]}
}

// ask sends a command and returns the answer, which is to be one line.
func (d *driver) ask(command string) string {
	d.t.Helper()
	answer := d.try(command)
	if strings.HasPrefix(answer, "error: ") {
		d.t.Fatalf("%s: %s: %s", d.name, command, answer)
	}
	return answer
}

// try is like ask, for a command that may fail.
func (d *driver) try(command string) string {
	d.t.Helper()
	conn, err := net.Dial("tcp", "127.0.0.1:"+d.port)
	must(d.t, err)
	defer conn.Close()
	must(d.t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = fmt.Fprintln(conn, command)
	must(d.t, err)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	must(d.t, err)
	return strings.TrimSpace(answer)
}

// numbers reads an answer of numbers.
func numbers(t *testing.T, answer string) []int {
	t.Helper()
	var all []int
	for field := range strings.FieldsSeq(answer) {
		var n int
		if _, err := fmt.Sscan(field, &n); err != nil {
			t.Fatalf("%q in %q is no number", field, answer)
		}
		all = append(all, n)
	}
	return all
}
