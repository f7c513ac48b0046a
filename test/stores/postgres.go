//go:build linux

package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func registerPostgres(register func(recipe)) {
	register(recipe{name: "postgres", version: "15", build: buildPostgres, start: startPostgres})
}

// Names in this recipe's cache directory.
const (
	postgresBins = "postgres-bin" // a link to the directory with the programs
	debianBins   = "root/usr/lib/postgresql/15/bin"
	debianLibs   = "root/usr/lib/x86_64-linux-gnu"
)

// buildPostgres uses the PostgreSQL of this machine, or unpacks one, and unpacks PgBouncer.
func buildPostgres(ctx context.Context, cache string) error {
	if err := debUnpack(ctx, cache, "pgbouncer", "libc-ares2", "libevent-2.1-7"); err != nil {
		return err
	}
	bins := installedPostgres()
	if bins == "" {
		bins = filepath.Join(cache, debianBins)
		if err := debUnpack(ctx, cache, "postgresql-15", "postgresql-client-15", "libpq5", "libicu72", "libxml2",
			"libxslt1.1", "libldap-2.5-0", "libsasl2-2", "libgssapi-krb5-2", "libkrb5-3", "libkrb5support0",
			"libk5crypto3", "liblz4-1", "libzstd1", "libssl3"); err != nil {
			return err
		}
	}
	link := filepath.Join(cache, postgresBins)
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(bins, link)
}

// installedPostgres returns the directory of the newest PostgreSQL installed on this
// machine, empty without one.
func installedPostgres() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well formed
	slices.SortFunc(found, func(a, b string) int { return postgresVersion(a) - postgresVersion(b) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	return ""
}

func postgresVersion(initdb string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return version
}

// startPostgres runs a server, and in front of it a PgBouncer in transaction mode:
// Note["pooled"] is its URL. Note["bin"] is the directory of the programs and Note["data"]
// the data directory, for tests that create standbys.
func startPostgres(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	owner, err := postgresUser(dir)
	if err != nil {
		return nil, err
	}
	// The cache may be in a home directory that the other user cannot enter.
	if err := run(ctx, dir, nil, "cp", "-a", filepath.Join(cache, "root"), dir); err != nil {
		return nil, err
	}
	bins, err := os.Readlink(filepath.Join(cache, postgresBins))
	if err != nil {
		return nil, err
	}
	data, libs := filepath.Join(dir, "data"), []string{}
	if inside, cached := strings.CutPrefix(bins, cache); cached {
		bins = filepath.Join(dir, inside)
		libs = []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, debianLibs)}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bins, "initdb"), "-D", data, "-U", "postgres", "-A", "trust",
		"--no-sync", "--no-instructions", "-E", "UTF8", "--no-locale")
	initdb.Dir, initdb.Env = dir, append(os.Environ(), libs...)
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb in %s: %w\n%s", data, err, out)
	}
	s := &Server{URL: postgresURL(addrs[0]), Addr: addrs[0],
		Note: map[string]string{"bin": bins, "data": data, "pooled": postgresURL(addrs[1])}}
	host, port, _ := net.SplitHostPort(addrs[0])
	server := &process{name: "postgres", dir: dir, user: owner, environment: libs,
		args: []string{filepath.Join(bins, "postgres"), "-D", data, "-c", "listen_addresses=" + host, "-c", "port=" + port,
			"-c", "unix_socket_directories=", "-c", "max_connections=300", "-c", "wal_level=replica"},
		answers: postgresAnswers(bins, libs, host, port)}
	if err := server.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, server.LogTail(4000)), server.Kill())
	}
	s.members = append(s.members, &postmaster{server})
	return s, startBouncer(ctx, s, dir, owner, addrs[1])
}

// startBouncer runs PgBouncer as an additional process of the store.
func startBouncer(ctx context.Context, s *Server, dir string, owner *syscall.Credential, addr string) error {
	host, port, _ := net.SplitHostPort(addr)
	_, serverPort, _ := net.SplitHostPort(s.Addr)
	config := filepath.Join(dir, "pgbouncer.ini")
	users := filepath.Join(dir, "users.txt")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%s\n[pgbouncer]\nlisten_addr = %s\nlisten_port = %s\n"+
		"unix_socket_dir =\nauth_type = trust\nauth_file = %s\npool_mode = transaction\nmax_client_conn = 500\n"+
		"default_pool_size = 20\n", serverPort, host, port, users)
	if err := errors.Join(os.WriteFile(config, []byte(text), 0o644),
		os.WriteFile(users, []byte("\"postgres\" \"\"\n"), 0o644)); err != nil {
		return err
	}
	return s.add(ctx, &process{name: "pgbouncer", dir: dir, user: owner, answers: listensOn(addr),
		environment: []string{"LD_LIBRARY_PATH=" + filepath.Join(dir, debianLibs)},
		args:        []string{filepath.Join(dir, "root/usr/sbin/pgbouncer"), config}})
}

func postgresURL(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}

// postgresAnswers returns a check that the server accepts connections.
func postgresAnswers(bins string, libs []string, host, port string) func(context.Context) error {
	return func(ctx context.Context) error {
		return run(ctx, "/", libs, filepath.Join(bins, "pg_isready"), "-q", "-h", host, "-p", port)
	}
}

// postgresUser returns the user to run the server, nil for the current one: PostgreSQL
// refuses to run as root. If we are root, it gives the directory to that user.
func postgresUser(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, errUID := strconv.ParseUint(account.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(errUID, errGID, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, err
	}
	// A test's directory is below one that only root may enter.
	for up := filepath.Dir(dir); len(up) > len(os.TempDir()) && strings.HasPrefix(up, os.TempDir()); up = filepath.Dir(up) {
		if err := os.Chmod(up, 0o711); err != nil {
			return nil, err
		}
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// postmaster is a PostgreSQL server. Its children lead process groups of their own and
// outlive it for a moment, so signals are sent to each of them.
type postmaster struct{ *process }

// Crash ends the server and its children with SIGKILL and waits for their end: a new server
// refuses to start while they run.
func (p *postmaster) Crash() {
	children := p.tell(syscall.SIGKILL)
	<-p.ended
	for _, child := range children {
		for syscall.Kill(child, 0) == nil && parentOf(child) != 0 {
			_ = syscall.Kill(child, syscall.SIGKILL) // a child that was started meanwhile
		}
	}
}

// Kill ends the server for good.
func (p *postmaster) Kill() error {
	p.Crash()
	return nil
}

// Pause stops the server, and then its children, to which no more can be added.
func (p *postmaster) Pause() { p.tell(syscall.SIGSTOP) }

// Resume lets them continue.
func (p *postmaster) Resume() { p.tell(syscall.SIGCONT) }

// tell stops the server, so it creates no more children, signals all children, and then the
// server; it returns the children.
func (p *postmaster) tell(sig syscall.Signal) []int {
	select {
	case <-p.ended:
		return nil
	default:
	}
	p.signal(syscall.SIGSTOP)
	children := childrenOf(p.command.Process.Pid)
	for _, child := range children {
		_ = syscall.Kill(child, sig) // it may have ended just now
	}
	p.signal(sig)
	return children
}

// childrenOf returns the processes whose parent is pid.
func childrenOf(pid int) []int {
	var children []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is well formed
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// parentOf returns the parent of a process that has not ended, else 0.
func parentOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 2 || fields[0] == "Z" {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
