//go:build linux

package stores

import (
	"context"
	"net"
	"os"
	"path/filepath"
)

func registerMariaDB(register func(recipe)) {
	register(recipe{name: "mariadb", version: "10.11", build: buildMariaDB, start: startMariaDB})
}

func buildMariaDB(ctx context.Context, cache string) error {
	return debUnpack(ctx, cache, "mariadb-server-core", "libaio1", "libnuma1", "liburing2", "libsnappy1v5")
}

// startMariaDB runs a server with one empty database, in which every user is root.
// Note["dsn"] is the address of the server in the driver's form.
func startMariaDB(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addrs[0])
	root := filepath.Join(cache, "root")
	libraries := []string{"LD_LIBRARY_PATH=" + filepath.Join(root, "usr", "lib", "x86_64-linux-gnu") + ":" +
		filepath.Join(root, "lib", "x86_64-linux-gnu")}
	args := []string{filepath.Join(root, "usr", "sbin", "mariadbd"), "--no-defaults", "--skip-grant-tables",
		"--datadir=" + dir, "--lc-messages-dir=" + filepath.Join(root, "usr", "share", "mysql")}
	if os.Getuid() == 0 {
		args = append(args, "--user=root") // otherwise it refuses to run as root
	}
	// This creates the files and exits: a server that is killed right after creating them
	// cannot recover.
	if err := run(ctx, dir, libraries, args[0], append(args[1:], "--bootstrap")...); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "conclave"), 0o755); err != nil { // a directory is a database
		return nil, err
	}
	args = append(args, "--bind-address="+host, "--port="+port, "--socket="+filepath.Join(dir, "socket"),
		"--pid-file="+filepath.Join(dir, "pid"),
		"--log-bin="+filepath.Join(dir, "binlog"), "--binlog-format=MIXED") // as for a primary with replicas
	s := &Server{URL: "mysql://root@" + addrs[0] + "/conclave", Addr: addrs[0],
		Note: map[string]string{"dsn": "root@tcp(" + addrs[0] + ")/"}}
	return s, s.add(ctx, &process{name: "mariadb", dir: dir, args: args,
		environment: libraries, answers: listensOn(addrs[0])})
}
