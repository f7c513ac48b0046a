//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election/electiontest/lostupdate"
	"github.com/conclave-project/conclave/test/stores"
)

// A foreign lock is a lock of other authors, which takes part in the experiment for
// comparison.
type foreign struct {
	name  string
	store string
	// prepare builds the worker in a directory and returns its command line, to which the
	// addresses of the store and of the registers are appended.
	prepare func(ctx context.Context, dir string) ([]string, error)
}

var foreigners = []foreign{
	{"etcd's own lock (clientv3/concurrency, as in etcdctl lock)", "etcd", prepareEtcdLock},
	{"Curator's LeaderLatch", "zookeeper", prepareCurator},
}

// The duration of the experiment with foreign locks, and the lease that their workers
// request.
const (
	foreignLength = 45 * time.Second
	foreignLease  = 2 * time.Second
	foreignMin    = 10000
)

// foreign runs the experiment with the foreign locks; it returns how many could not take
// part.
func (r *runner) foreign(ctx context.Context) (found []other, failed int) {
	for _, f := range foreigners {
		if slices.Contains(r.without, f.store) {
			continue
		}
		result, err := f.run(ctx, r.logs)
		if err != nil {
			fmt.Fprintf(r.out, "NOT PROVED  %s: %v\n", f.name, err)
			failed++
			continue
		}
		fmt.Fprintf(r.out, "ok          %s: %s\n", f.name, counts(&result))
		found = append(found, other{f.name + ", " + f.store + " " + stores.Version(f.store), result})
	}
	return found, failed
}

func (f foreign) run(ctx context.Context, logs string) (lostupdate.Result, error) {
	dir, err := os.MkdirTemp(logs, "foreign-")
	if err != nil {
		return lostupdate.Result{}, err
	}
	line, err := f.prepare(ctx, dir)
	if err != nil {
		return lostupdate.Result{}, err
	}
	store, err := stores.Launch(ctx, f.store, dir)
	if err != nil {
		return lostupdate.Result{}, err
	}
	defer store.Stop()
	return lostupdate.Experiment{
		Command: func(_, registers string) *exec.Cmd {
			return exec.Command(line[0], append(slices.Clone(line[1:]), store.Addr, registers)...)
		},
		Lease: foreignLease, Length: foreignLength, UpdatesMin: foreignMin,
	}.Run(ctx)
}

// prepareEtcdLock builds the worker, which is a separate module.
func prepareEtcdLock(ctx context.Context, dir string) ([]string, error) {
	worker := filepath.Join(dir, "etcdlock")
	build := exec.CommandContext(ctx, "go", "build", "-o", worker, ".")
	build.Dir = "test/conformance/etcdlock"
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build etcdlock: %w\n%s", err, out)
	}
	return []string{worker}, nil
}

// prepareCurator compiles the worker against the jars of test/interop.
func prepareCurator(ctx context.Context, dir string) ([]string, error) {
	list := filepath.Join(dir, "classpath")
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", "test/interop/java/pom.xml", "dependency:build-classpath",
		"-Dmdep.outputFile="+list, "-Dinterop.build="+dir)
	if out, err := mvn.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("find Curator's jars with mvn: %w\n%s", err, out)
	}
	jars, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	path := strings.TrimSpace(string(jars))
	javac := exec.CommandContext(ctx, "javac", "-cp", path, "-d", dir, "test/conformance/curator/CuratorWorker.java")
	if out, err := javac.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile CuratorWorker: %w\n%s", err, out)
	}
	return []string{"java", "-Xmx64m", "-cp", path + ":" + dir, "CuratorWorker"}, nil
}
