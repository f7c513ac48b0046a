// Package scripts is for tests: it runs shell sessions, as a user would type
// them, with the programs built from this source tree.
package scripts

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/command"
	"github.com/conclave-project/conclave/internal/certtest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/probe"
	"github.com/rogpeppe/go-internal/testscript"
)

// Run runs the scripts of a directory. CONCLAVE_STORE is the store if there is
// one. Other variables are LEASE, the lease of all candidates, LONG, which is
// longer, and PROGRAM, the path of conclave.
func Run(t *testing.T, dir, store string, more ...string) {
	if signal.Ignored(syscall.SIGHUP) {
		// If the tests run under nohup, the commands would ignore a script's SIGHUP, as they
		// should.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", e.Getenv("WORK")+"/state")
			e.Setenv("XDG_RUNTIME_DIR", e.Getenv("WORK")+"/run")
			e.Setenv("GORACE", os.Getenv("GORACE"))             // else a command ends a second late under the race detector
			e.Setenv("PORT", fmt.Sprint(childtest.Ports(t, 4))) // dev also uses the ports that follow the given one
			for _, name := range []string{"PORT2", "PORT3", "PORT4", "PORT5", "PORT6"} {
				e.Setenv(name, fmt.Sprint(childtest.Port(t)))
			}
			program, err := exec.LookPath("conclave")
			if err != nil {
				return err
			}
			e.Setenv("PROGRAM", program)
			e.Vars = append(append(e.Vars, "LEASE=4s", "LONG=7s"), more...)
			if store != "" {
				e.Setenv("CONCLAVE_STORE", strings.ReplaceAll(store, "$WORK", e.Getenv("WORK")))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"waitfor": waitFor, "until": until, "exitcode": exitCode, "large": large, "certificates": certificates, "webget": webGet},
		Condition: func(condition string) (bool, error) {
			switch condition {
			case "wholeline":
				return command.ShowsWaiters(strings.ReplaceAll(store, "$WORK", "/work"))
			case "trimpath": // built like a release: it does not know where its sources are
				_, here, _, _ := runtime.Caller(0)
				return !filepath.IsAbs(here), nil
			}
			return false, fmt.Errorf("unknown condition %q", condition)
		},
	})
}

// Patience bounds every wait of a script.
const Patience = 40 * time.Second

// waitFor waits until a file has a line with a text, or a port is open:
//
//	waitfor FILE TEXT
//	waitfor port PORT
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfor FILE TEXT | waitfor port PORT")
	}
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if args[0] == "port" {
			if conn, err := net.Dial("tcp", "127.0.0.1:"+args[1]); err == nil {
				conn.Close()
				return
			}
			continue
		}
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && strings.Contains(string(text), args[1]) {
			return
		}
	}
	ts.Fatalf("waited %v in vain for %v", Patience, args)
}

// until runs a command repeatedly until a line of its standard output matches, to wait
// for another process:
//
//	until PATTERN COMMAND...
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_ = ts.Exec(args[1], args[2:]...) // it may fail until then
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("waited %v in vain for %v", Patience, args)
}

// large makes a znode that is larger than the command's own client may send:
//
//	large PORT PATH BYTES
func large(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: large PORT PATH BYTES")
	}
	bytes, err := strconv.Atoi(args[2])
	ts.Check(err)
	c, err := probe.Dial("127.0.0.1:"+args[0], 10*time.Second)
	ts.Check(err)
	defer c.Cut()
	_, err = c.Create(args[1], make([]byte, bytes), probe.World, 0)
	ts.Check(err)
}

// certificates makes an authority in a directory, and certificates of it for a server on
// this machine and for a client; and another authority:
//
//	certificates DIR
func certificates(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: certificates DIR")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	ca := certtest.New("authority")
	server, client := ca.Issue("server", "localhost", "127.0.0.1"), ca.Issue("client")
	for name, content := range map[string][]byte{
		"ca.pem": ca.PEM(), "other-ca.pem": certtest.New("other").PEM(), "server.pem": append(server.KeyPEM(), server.PEM()...),
		"client.pem": client.PEM(), "client.key": client.KeyPEM(),
	} {
		ts.Check(os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
}

// webGet requests a page until the answer has a status. It trusts the authority in a
// directory made by certificates, and with "client" it presents the client certificate from
// there. Headers and page go to the standard output. With ! there must be no answer:
//
//	webget STATUS URL DIR [client] ['NAME: VALUE'...]
func webGet(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: webget STATUS URL DIR [client] ['NAME: VALUE'...]")
	}
	request, err := http.NewRequest(http.MethodGet, args[1], nil)
	ts.Check(err)
	dir := ts.MkAbs(args[2])
	trusted, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	ts.Check(err)
	with := &tls.Config{RootCAs: x509.NewCertPool()}
	with.RootCAs.AppendCertsFromPEM(trusted)
	for _, arg := range args[3:] {
		if name, value, isHeader := strings.Cut(arg, ": "); isHeader {
			request.Header.Add(name, value)
			continue
		}
		shown, err := tls.LoadX509KeyPair(filepath.Join(dir, arg+".pem"), filepath.Join(dir, arg+".key"))
		ts.Check(err)
		with.Certificates = []tls.Certificate{shown}
	}
	client := &http.Client{Timeout: Patience, Transport: &http.Transport{TLSClientConfig: with, DisableKeepAlives: true}}
	for end := time.Now().Add(Patience); ; time.Sleep(50 * time.Millisecond) {
		answer, err := client.Do(request)
		switch {
		case neg && err == nil:
			ts.Fatalf("%s is answered with %s", args[1], answer.Status)
		case neg:
			return
		case err == nil && strconv.Itoa(answer.StatusCode) == args[0]:
			ts.Check(printed(ts.Stdout(), answer))
			return
		case time.Now().After(end):
			ts.Fatalf("%s: %v, %v", args[1], answer, err)
		}
	}
}

// printed writes an answer.
func printed(w io.Writer, answer *http.Response) error {
	defer answer.Body.Close()
	for name, values := range answer.Header {
		fmt.Fprintf(w, "%s: %s\n", name, strings.Join(values, ", "))
	}
	_, err := io.Copy(w, answer.Body)
	return err
}

// exitCode runs a command and checks how it ends:
//
//	exitcode CODE COMMAND...
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%v ended with %s, want %s", args[1:], got, args[0])
	}
}
