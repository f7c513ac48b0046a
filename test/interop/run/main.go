//go:build linux

// Command run tests a server with clients by others: Apache's Java client, Curator, kazoo,
// go-zookeeper and the C client, all unmodified, and exchanges data directories with Apache
// ZooKeeper. By name, it also runs the tests that ZooKeeper and Curator publish beside
// their libraries.
//
// It takes the kind of server (Conclave of this tree, or an Apache release for comparison),
// the kinds of an ensemble of which the clients use a follower, or the address of a running
// server. It prints a line for each test and, last, the line "N passed, N failed". Packages
// that a suite needs (Java, Maven, Python packages, the C library) are installed by name if
// they are missing, with apt as root; on other systems the missing names are printed.
//
// Exit codes: 0 all passed, 1 something failed, 2 a suite could not be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// serverConfig is the configuration that the suites expect, in addition to the defaults of
// package servers: short sessions are allowed, and super:interop is the super user.
var serverConfig = []string{
	"tickTime=500",
	"maxSessionTimeout=20000",
	"DigestAuthenticationProvider.superDigest=super:/49OUaS/Rm5CIudE7EhYoMwy+PY=",
	"authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
}

// serverProperties make containers and TTL znodes expire soon, and let the clients of
// jaas.conf authenticate by SASL.
func serverProperties() (map[string]string, error) {
	root, err := servers.Root()
	return map[string]string{
		"znode.container.checkIntervalMs": "300", "zookeeper.fips-mode": "false",
		"java.security.auth.login.config": filepath.Join(root, "test/interop/run/jaas.conf"),
	}, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run runs the program with its arguments; it returns the exit code.
func run(ctx context.Context, args []string) int {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	kind := flags.String("kind", "conclave", "server to start: conclave or apache-VERSION")
	server := flags.String("server", "", "host:port of a server that runs already; it is not started")
	ensemble := flags.String("ensemble", "", "comma-separated kinds of an ensemble to start; the clients use the first, which follows")
	chosen := flags.String("suites", "", "comma-separated suites of "+strings.Join(suiteNames(), ",")+"; empty: all but "+strings.Join(longSuites(), ","))
	secure := flags.Bool("tls", false, "clients of Java, Python and Go speak TLS")
	only := flags.Bool("install", false, "install what the suites need from the system, and run none")
	verbose := flags.Bool("v", false, "print the output of failing suites whole")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	kinds, err := kindsByName(*kind, *ensemble)
	if err == nil {
		err = checkSuites(*chosen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var files *servers.Certificates
	if *secure {
		if files, err = servers.NewCertificates(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		defer files.Remove()
	}
	r := &report{out: os.Stdout, verbose: *verbose}
	for _, s := range suites {
		named := slices.Contains(strings.Split(*chosen, ","), s.name)
		if !named && (*chosen != "" || s.byName) || len(kinds) > 1 && s.ownServers {
			continue
		}
		if files != nil && !s.tls {
			continue
		}
		if *only {
			if err := install(ctx, s.needs); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
				return 2
			}
			continue
		}
		started := time.Now()
		results, err := runSuite(ctx, s, target{kinds, *server, files})
		r.suite(s.name, results, err, time.Since(started))
	}
	if *only {
		return 0
	}
	return r.finish()
}

// kindsByName returns the servers to start: one, or an ensemble.
func kindsByName(one, ensemble string) ([]servers.Kind, error) {
	if ensemble == "" {
		ensemble = one
	}
	var kinds []servers.Kind
	for _, name := range strings.Split(ensemble, ",") {
		k, err := servers.Named(name)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, k)
	}
	if len(kinds) == 2 {
		return nil, fmt.Errorf("run: an ensemble of two: say three kinds or more, for the first joins the others")
	}
	return kinds, nil
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

// A target is what a suite is run against.
type target struct {
	kinds []servers.Kind        // one server, or an ensemble
	addr  string                // of a running server
	tls   *servers.Certificates // nil: no TLS
}

// start starts the target, unless it is running already, and returns the address for
// clients and a function that ends it.
func (t target) start(ctx context.Context) (addr string, end func() error, err error) {
	if t.addr != "" {
		return t.addr, func() error { return nil }, nil
	}
	config := slices.Clone(serverConfig)
	if t.tls != nil {
		config = append(t.tls.Config(), config...)
	}
	properties, err := serverProperties()
	if err != nil {
		return "", nil, err
	}
	if len(t.kinds) == 1 {
		s, err := servers.Start(ctx, t.kinds[0], servers.Options{Config: config, Properties: properties})
		if err != nil {
			return "", nil, err
		}
		return s.Addr, s.Stop, nil
	}
	e, err := servers.NewEnsemble(ctx, servers.EnsembleOptions{Kinds: t.kinds, Config: config, Properties: properties})
	if err != nil {
		return "", nil, err
	}
	if err := startLate(ctx, e); err != nil {
		return "", nil, errors.Join(err, e.Close())
	}
	return e.Member(1).Addr, e.Close, nil
}

// startLate starts the first server once the others have a leader.
func startLate(ctx context.Context, e *servers.Ensemble) error {
	if err := servers.StartAll(ctx, e.Members[1:]...); err != nil {
		return err
	}
	if err := e.Member(1).Start(ctx); err != nil {
		return err
	}
	return e.Member(1).AwaitMode(ctx, "follower")
}

// tlsVariables are the variables that tell the suites' clients where the certificates are;
// Java's clients take properties.
func tlsVariables(files *servers.Certificates) []string {
	if files == nil {
		return nil
	}
	return []string{"ZK_TLS=" + files.Dir, "JAVA_TOOL_OPTIONS=" + strings.Join([]string{
		"-Dzookeeper.client.secure=true",
		"-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
		"-Dzookeeper.ssl.trustStore.location=" + files.Path("ca.pem"),
	}, " ")}
}

// runSuite installs what the suite needs, starts fresh servers and runs the suite. The
// suite finds the address for clients in ZK_ADDRESS.
func runSuite(ctx context.Context, s suite, t target) ([]result, error) {
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
	e := &environment{root: root, cache: cache, tls: t.tls != nil}
	if s.ownServers {
		e.variables = append(e.variables, "INTEROP_KIND="+t.kinds[0].Name())
		return s.run(ctx, e)
	}
	addr, end, err := t.start(ctx)
	if err != nil {
		return nil, err
	}
	e.variables = append(append(e.variables, "ZK_ADDRESS="+addr), tlsVariables(t.tls)...)
	results, err := s.run(ctx, e)
	return results, errors.Join(err, end())
}
