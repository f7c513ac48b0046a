//go:build conformance && linux

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/incarnation"
	"github.com/conclave-project/conclave/election/backend/internal/storetest"
	"github.com/conclave-project/conclave/election/record"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/stores"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// owner returns the user that runs PostgreSQL's programs, nil for our own.
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

// startStandby copies the server, runs the copy as an asynchronous standby, and returns its
// address.
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
		_ = standby.Process.Signal(syscall.SIGQUIT) // an immediate shutdown, including children
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

// TestAsynchronousStandbyThatIsPromotedElectsNobodyTooEarly, because it has never received the
// grant.
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
	// Replication ends here, unnoticed.
	execute(t, standby, "alter system set primary_conninfo = ''", "select pg_reload_conf()")
	awaitValue(t, standby, "select count(*)::text from pg_stat_wal_receiver", "0")
	held := storetest.Acquire(t, a, "a", leaseMax)
	server.Crash()
	execute(t, standby, "select pg_promote()")
	storetest.NextAfter(t, held, open(t, standby+"&lease-max=4s"), leaseMax)
}

// TestCandidateFollowsTheAddressOfThePrimary: where the address of a primary changes a moment
// later than its role, a candidate that has reached a standby would keep that connection, and
// would be told forever that it is a standby.
func TestCandidateFollowsTheAddressOfThePrimary(t *testing.T) {
	server := stores.Start(t, "postgres")
	plain := newDatabase(t, server.URL)
	if _, err := openStore(t, plain).Write(awaittest.Within(t), "other", record.Record{}, ""); err != nil { // which makes the table
		t.Fatal(err)
	}
	standby := startStandby(t, server)
	awaitValue(t, strings.Replace(plain, server.Addr, standby, 1), "select 'up'", "up")
	var addr atomic.Pointer[string]
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, *addr.Load())
	}
	pools := map[string]func() *sql.DB{
		"a pool of database/sql": func() *sql.DB {
			config, _, err := parse(plain)
			if err != nil {
				t.Fatal(err)
			}
			config.DialFunc = dial
			return stdlib.OpenDB(*config)
		},
		"a pool of pgx": func() *sql.DB {
			config, err := pgxpool.ParseConfig(plain)
			if err != nil {
				t.Fatal(err)
			}
			config.ConnConfig.DialFunc = dial
			pool, err := pgxpool.NewWithConfig(awaittest.Within(t), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			return stdlib.OpenDBFromPool(pool)
		},
	}
	requests := map[string]func(*store) error{
		"read": func(s *store) error { _, _, err := s.Read(awaittest.Within(t), "e"); return err },
		"write": func(s *store) error {
			_, err := s.Write(awaittest.Within(t), newVersion(), record.Record{}, "")
			return err
		},
		"adopt": func(s *store) error { return s.Adopt(awaittest.Within(t), incarnation.Outcome{Incarnation: "i"}) },
	}
	for kind, openPool := range pools {
		for what, request := range requests {
			addr.Store(&standby)
			db := openPool()
			defer db.Close()
			s, err := newStore(db, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := request(s); !errors.Is(err, errStandby) {
				t.Errorf("%s by %s from a standby: %v", what, kind, err)
			}
			addr.Store(&server.Addr)
			if err := request(s); err != nil {
				t.Errorf("%s by %s when the address is the primary's: %v", what, kind, err)
			}
		}
	}
}
