//go:build conformance && linux

package postgres

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/stores"
)

// owner is who runs PostgreSQL's programs, nil for ourselves.
func owner(t testing.TB) *syscall.SysProcAttr {
	t.Helper()
	attributes := &syscall.SysProcAttr{}
	if os.Geteuid() != 0 {
		return attributes
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes
}

// startStandby copies the server and runs the copy as an asynchronous standby.
// It returns its address.
func startStandby(t testing.TB, server *stores.Server) string {
	t.Helper()
	port, err := childtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(filepath.Dir(server.Note["data"]), "standby")
	program := func(name string, args ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(server.Note["bin"], name), args...)
		command.Dir, command.SysProcAttr = filepath.Dir(data), owner(t)
		return command
	}
	host, primaryPort, _ := net.SplitHostPort(server.Addr)
	if out, err := program("pg_basebackup", "-h", host, "-p", primaryPort, "-U", "postgres", "-D", data, "-R",
		"--checkpoint=fast", "--wal-method=stream").CombinedOutput(); err != nil {
		t.Fatalf("pg_basebackup: %v\n%s", err, out)
	}
	standby := program("postgres", "-D", data, "-c", "listen_addresses="+host, "-c", fmt.Sprint("port=", port),
		"-c", "unix_socket_directories=", "-c", "max_connections="+lookUp(t, server.URL, "show max_connections"))
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = standby.Process.Signal(syscall.SIGQUIT) // an immediate shutdown, children and all
		_ = standby.Wait()
	})
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// awaitValue returns when the query gives the value.
func awaitValue(t testing.TB, url, query, want string) {
	t.Helper()
	c := openStore(t, url).db
	var last string
	defer func() {
		if last != want {
			t.Logf("it gives %s", last)
		}
	}()
	awaittest.Until(t, fmt.Sprintf("%s gives %s", query, want), func() bool {
		last = ""
		if err := c.QueryRowContext(awaittest.Within(t), query).Scan(&last); err != nil {
			last = err.Error()
		}
		return last == want
	})
}

// TestAsynchronousStandbyThatIsPromotedElectsNobodyTooEarly: it has never received the grant.
func TestAsynchronousStandbyThatIsPromotedElectsNobodyTooEarly(t *testing.T) {
	const leaseMax = 4 * time.Second
	server := stores.Start(t, "postgres")
	plain := newDatabase(t, server.URL)
	addr := startStandby(t, server)
	standby := strings.Replace(plain, server.Addr, addr, 1)
	a := open(t, plain+"&lease-max=4s")
	if err := a.Release(awaittest.Within(t), storetest.Acquire(t, a, "a", leaseMax)); err != nil {
		t.Fatal(err)
	}
	mark := lookUp(t, plain, "select pg_current_wal_flush_lsn()::text")
	awaitValue(t, standby, "select (pg_last_wal_replay_lsn() >= '"+mark+"')::text", "true")
	if _, _, err := openStore(t, standby).Read(awaittest.Within(t), "e"); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("a read from a standby: %v", err)
	}
	// Replication ends here, and nobody has noticed.
	execute(t, standby, "alter system set primary_conninfo = ''", "select pg_reload_conf()")
	awaitValue(t, standby, "select count(*)::text from pg_stat_wal_receiver", "0")
	held := storetest.Acquire(t, a, "a", leaseMax)
	server.Crash()
	execute(t, standby, "select pg_promote()")
	storetest.NextAfter(t, held, open(t, standby+"&lease-max=4s"), leaseMax)
}
