//go:build linux

package stores

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"time"
)

func registerRedis(register func(recipe)) {
	register(recipe{name: "redis", version: "7.0", build: buildRedis, start: startRedis})
}

func buildRedis(ctx context.Context, cache string) error {
	return debUnpack(ctx, cache, "redis-server", "redis-tools", "libhiredis0.14", "libjemalloc2",
		"liblua5.1-0", "lua-cjson", "lua-bitop", "liblzf1")
}

// startRedis runs a primary that syncs each write before it answers, and a replica:
// Note["replica"] is the replica's URL. There is no automatic failover.
func startRedis(ctx context.Context, cache, dir string) (*Server, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "redis://" + addrs[0], Addr: addrs[0], Note: map[string]string{"replica": "redis://" + addrs[1]}}
	primary, _, _ := net.SplitHostPort(addrs[0])
	_, primaryPort, _ := net.SplitHostPort(addrs[0])
	if err := s.add(ctx, redisServer(cache, dir, "primary", addrs[0])); err != nil {
		return nil, err
	}
	replica := redisServer(cache, dir, "replica", addrs[1], "--replicaof", primary, primaryPort)
	// Until the replica has copied everything, it changes the primary's replication id.
	replica.answers = redisAnswers(addrs[1], "INFO replication", "master_link_status:up")
	if err := s.add(ctx, replica); err != nil {
		return nil, err
	}
	return s, nil
}

func redisServer(cache, dir, name, addr string, more ...string) *process {
	host, port, _ := net.SplitHostPort(addr)
	root := filepath.Join(cache, "root", "usr")
	args := append([]string{filepath.Join(root, "bin", "redis-server"), "--bind", host, "--port", port,
		"--dir", dir, "--dbfilename", name + ".rdb", "--appenddirname", name + "-aof",
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--repl-diskless-sync-delay", "0"}, more...)
	return &process{name: name, dir: dir, args: args, environment: []string{
		"LD_LIBRARY_PATH=" + filepath.Join(root, "lib", "x86_64-linux-gnu")},
		answers: redisAnswers(addr, "PING", "+PONG")}
}

// redisAnswers returns a check that the server's answer to a command contains a text.
func redisAnswers(addr, command, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.WriteString(c, command+"\r\nQUIT\r\n"); err != nil {
			return err
		}
		answer, err := io.ReadAll(c)
		if err == nil && !strings.Contains(string(answer), want) {
			return fmt.Errorf("it answers %q to %s", answer, command)
		}
		return err
	}
}
