//go:build linux

// Command run proves a server against clients that others wrote: Apache's Java
// client, Curator, kazoo, go-zookeeper and the C client, all unmodified, and
// exchanges data directories with Apache ZooKeeper.
//
// In goes the kind of server (Conclave of this tree, or an Apache release for
// comparison) or the address of one that runs already. Out come a line for each
// test and, last, the plain line "N passed, N failed". What a suite needs
// (Java, Maven, Python packages, the C library) is installed by name when it is
// missing, with apt as root; on other systems the missing names are printed.
//
// Exit codes: 0 all passed, 1 something failed, 2 a suite could not be run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// serverConfig is what the suites expect of a server, besides the defaults of
// package servers: short sessions may be asked for, and super:interop is the
// super user.
var serverConfig = []string{
	"tickTime=500",
	"maxSessionTimeout=20000",
	"DigestAuthenticationProvider.superDigest=super:/49OUaS/Rm5CIudE7EhYoMwy+PY=",
}

// serverProperties let containers and TTL znodes go soon.
var serverProperties = map[string]string{"znode.container.checkIntervalMs": "300"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run is the program with its arguments; it returns the exit code.
func run(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	kind := flags.String("kind", "conclave", "server to start: conclave or apache-VERSION")
	server := flags.String("server", "", "host:port of a server that runs already; it is not started")
	chosen := flags.String("suites", "", "comma-separated suites; empty: all of "+strings.Join(suiteNames(), ","))
	verbose := flags.Bool("v", false, "print the output of failing suites whole")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	program, err := kindByName(*kind)
	if err == nil {
		err = checkSuites(*chosen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	r := &report{out: os.Stdout, verbose: *verbose}
	for _, s := range suites {
		if *chosen != "" && !slices.Contains(strings.Split(*chosen, ","), s.name) {
			continue
		}
		started := time.Now()
		results, err := runSuite(ctx, s, program, *server)
		r.suite(s.name, results, err, time.Since(started))
	}
	return r.finish()
}

// kindByName turns the name of a server into what starts it.
func kindByName(name string) (servers.Kind, error) {
	if version, ok := strings.CutPrefix(name, "apache-"); ok {
		return servers.Apache(version), nil
	}
	if name == servers.Conclave().Name() {
		return servers.Conclave(), nil
	}
	return nil, fmt.Errorf("run: unknown kind %q: say conclave or apache-VERSION, such as apache-%s",
		name, servers.Apache39)
}

func checkSuites(chosen string) error {
	if chosen == "" {
		return nil
	}
	for _, name := range strings.Split(chosen, ",") {
		if !slices.Contains(suiteNames(), name) {
			return fmt.Errorf("run: unknown suite %q: there are %s", name, strings.Join(suiteNames(), ", "))
		}
	}
	return nil
}

// runSuite installs what the suite needs, starts a fresh server for it and runs
// it. The suite sees the server's address as ZK_ADDRESS.
func runSuite(ctx context.Context, s suite, k servers.Kind, addr string) ([]result, error) {
	if err := install(ctx, s.needs); err != nil {
		return nil, err
	}
	root, err := servers.Root()
	if err != nil {
		return nil, err
	}
	cache, err := servers.CacheDir()
	if err != nil {
		return nil, err
	}
	e := &environment{root: root, cache: cache}
	if s.ownServers {
		e.variables = append(e.variables, "INTEROP_KIND="+k.Name())
		return s.run(ctx, e)
	}
	if addr == "" {
		server, err := servers.Start(ctx, k, servers.Options{Config: serverConfig, Properties: serverProperties})
		if err != nil {
			return nil, err
		}
		addr = server.Addr
		defer func() { err = server.Stop() }()
	}
	e.variables = append(e.variables, "ZK_ADDRESS="+addr)
	return s.run(ctx, e)
}
