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

// startMariaDB runs a server without databases, in which everybody is root.
func startMariaDB(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(addrs[0])
	root := filepath.Join(cache, "root")
	args := []string{filepath.Join(root, "usr", "sbin", "mariadbd"), "--no-defaults", "--skip-grant-tables",
		"--datadir=" + dir, "--lc-messages-dir=" + filepath.Join(root, "usr", "share", "mysql"),
		"--bind-address=" + host, "--port=" + port, "--socket=" + filepath.Join(dir, "socket"),
		"--pid-file=" + filepath.Join(dir, "pid")}
	if os.Getuid() == 0 {
		args = append(args, "--user=root") // it refuses to be root without being told
	}
	libraries := filepath.Join(root, "usr", "lib", "x86_64-linux-gnu") + ":" + filepath.Join(root, "lib", "x86_64-linux-gnu")
	s := &Server{URL: "root@tcp(" + addrs[0] + ")/", Addr: addrs[0]}
	return s, s.add(ctx, &process{name: "mariadb", dir: dir, args: args,
		environment: []string{"LD_LIBRARY_PATH=" + libraries}, answers: listensOn(addrs[0])})
}
