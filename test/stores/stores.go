//go:build linux

package stores

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/conclave-project/conclave/test/servers"
)

// CacheVariable is the environment variable with the directory for built stores.
const CacheVariable = "CONCLAVE_STORES"

// WithoutVariable is the environment variable with the stores to leave out, separated by
// commas: tests that start one of them are skipped.
const WithoutVariable = "CONCLAVE_WITHOUT"

const (
	buildWithin = 25 * time.Minute // Consul and Kubernetes take five minutes on two idle cores
	startWithin = 3 * time.Minute  // for a Kubernetes API server on a busy machine
)

// A recipe describes how one store is obtained and started.
type recipe struct {
	// name is the name of the store, and of its file and module.
	name string
	// version is the version that is built, for people and for the cache.
	version string
	// slow: a build takes more than two minutes on two cores.
	slow bool
	// fresh: build again in every process, because it is built from this tree.
	fresh bool
	// build puts everything needed into the directory, which is empty or contains the
	// remains of a failed build. Unless fresh, it is not called again after it has returned
	// nil. If build is nil, there is nothing to build.
	build func(ctx context.Context, cache string) error
	// start runs the store with its data and logs in dir, which is empty, and returns when
	// it answers; cache contains what build has put there.
	start func(ctx context.Context, cache, dir string) (*Server, error)
}

// registrations are the functions that register recipes, one in each recipe's file.
var registrations = []func(register func(recipe)){
	registerAzureBlob,
	registerConsul,
	registerDynamoDB,
	registerEtcd,
	registerGCS,
	registerKubernetes,
	registerMariaDB,
	registerNATS,
	registerPostgres,
	registerRedis,
	registerS3,
	registerZooKeepers,
}

// recipes returns all recipes by name.
var recipes = sync.OnceValue(func() map[string]recipe {
	all := map[string]recipe{}
	for _, registration := range registrations {
		registration(func(r recipe) {
			if _, twice := all[r.name]; twice {
				panic("stores: two recipes for " + r.name)
			}
			all[r.name] = r
		})
	}
	return all
})

// Names returns the names of all stores, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(recipes()))
}

// Slow reports whether building that store takes more than two minutes.
func Slow(name string) bool { return recipes()[name].slow }

// Version returns the version that is built, empty for an unknown store.
func Version(name string) string { return recipes()[name].version }

// Build builds or installs a store, unless that was done before.
func Build(ctx context.Context, name string) error {
	_, err := ready(ctx, name)
	return err
}

// ready returns the directory of a built store, after building it if necessary.
func ready(ctx context.Context, name string) (string, error) {
	r, known := recipes()[name]
	if !known {
		return "", fmt.Errorf("stores: no store %q; there are %s", name, strings.Join(Names(), ", "))
	}
	cache, err := r.cacheDir()
	if err != nil {
		return "", fmt.Errorf("stores: build %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, buildWithin)
	defer cancel()
	if err := r.buildOnce(ctx, cache); err != nil {
		return "", fmt.Errorf("stores: build %s %s: %w", name, r.version, err)
	}
	return cache, nil
}

// buildOnce builds under a lock that is shared with other processes (stores-R2).
func (r recipe) buildOnce(ctx context.Context, cache string) error {
	if r.build == nil {
		return nil
	}
	lock, err := os.OpenFile(cache+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	complete := filepath.Join(cache, "complete")
	if _, err := os.Stat(complete); err == nil && !r.fresh {
		return nil
	}
	if err := r.build(ctx, cache); err != nil {
		return err
	}
	return os.WriteFile(complete, []byte(r.version+"\n"), 0o644)
}

// cacheDir returns the recipe's own directory (stores-R1), and creates it if necessary.
func (r recipe) cacheDir() (string, error) {
	base, err := CacheDir()
	if err != nil {
		return "", err
	}
	sum, err := r.moduleSum()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, r.name+"-"+r.version+sum)
	return dir, os.MkdirAll(dir, 0o755)
}

// moduleSum returns a short sum of the files of the recipe's module, empty
// without one.
func (r recipe) moduleSum() (string, error) {
	dir, err := r.moduleDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(path), len(data), data)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return "-" + hex.EncodeToString(sum.Sum(nil)[:4]), err
}

// moduleDir returns the directory of the recipe's module, if it has one.
func (r recipe) moduleDir() (string, error) {
	root, err := servers.Root()
	return filepath.Join(root, "test", "stores", "src", r.name), err
}

// CacheDir returns the directory for built stores, and creates it if necessary.
func CacheDir() (string, error) {
	dir := os.Getenv(CacheVariable)
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("cache directory: %w; set %s", err, CacheVariable)
		}
		dir = filepath.Join(base, "conclave", "stores")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// Launch builds a store if necessary and starts it with its data in dir.
func Launch(ctx context.Context, name, dir string) (*Server, error) {
	cache, err := ready(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	s, err := recipes()[name].start(ctx, cache, dir)
	if err != nil {
		return nil, fmt.Errorf("stores: start %s %s: %w", name, recipes()[name].version, err)
	}
	s.Name = name
	if s.Version == "" {
		s.Version = recipes()[name].version
	}
	return s, nil
}

// Start is Launch for a test: the store runs until the test has ended. If the store is not
// available, the test fails: it is skipped only if the store was left out by name.
func Start(t testing.TB, name string) *Server {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(WithoutVariable), ","), name) {
		t.Skipf("%s is left out by name, by %s", name, WithoutVariable)
	}
	dir := t.TempDir()
	s, err := Launch(t.Context(), name, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.LogTail(4000))
		}
		s.Stop()
	})
	started.Store(s.URL, s)
	return s
}

// started contains the servers that Start has started, by URL.
var started sync.Map

// At returns the server that Start has started at a URL. It panics if there is none.
func At(url string) *Server {
	server, _ := started.Load(url)
	return server.(*Server)
}
