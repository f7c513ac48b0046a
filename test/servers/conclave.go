//go:build linux

package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// BinaryVariable is the environment variable with a Conclave binary to test instead of one
// built from this tree.
const BinaryVariable = "CONCLAVE_BINARY"

type conclave struct {
	once   sync.Once
	binary string
	err    error
}

var built conclave

// Conclave returns the server of this tree: the binary is built once per test process, or
// is named by the environment variable CONCLAVE_BINARY.
func Conclave() Kind { return &built }

// ConclaveAt returns the kind of an existing Conclave binary, for example of another
// version.
func ConclaveAt(binary string) Kind {
	c := &conclave{binary: binary}
	c.once.Do(func() {}) // nothing is to be built
	return c
}

func (c *conclave) Name() string { return "conclave" }

// Install builds the binary.
func (c *conclave) Install(ctx context.Context) error {
	_, err := c.Binary(ctx)
	return err
}

// Binary returns the path of the Conclave binary, which is built if necessary.
func Binary(ctx context.Context) (string, error) { return built.Binary(ctx) }

// WithStores is Binary with conclave-stores in the same directory.
func WithStores(ctx context.Context) (string, error) {
	binary, err := built.Binary(ctx)
	if err != nil || os.Getenv(BinaryVariable) != "" {
		return binary, err
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	return binary, compile(ctx, root, "./cmd/conclave/conclave-stores", filepath.Join(filepath.Dir(binary), "conclave-stores"))
}

// Binary returns the path of the binary, which is built at the first call.
func (c *conclave) Binary(ctx context.Context) (string, error) {
	c.once.Do(func() { c.binary, c.err = build(ctx) })
	return c.binary, c.err
}

// build compiles cmd/conclave.
func build(ctx context.Context) (string, error) {
	if binary := os.Getenv(BinaryVariable); binary != "" {
		return filepath.Abs(binary)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	// In the tree, since another checkout may run its own tests at the same time.
	dir := filepath.Join(root, "bin", "tested")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("servers: build conclave: %w", err)
	}
	binary := filepath.Join(dir, "conclave")
	return binary, compile(ctx, root, "./cmd/conclave", binary)
}

// compile builds a command as for a release into a new file, which then replaces the old
// one; that one may be running elsewhere.
func compile(ctx context.Context, root, command, binary string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(binary), "build-")
	if err != nil {
		return fmt.Errorf("servers: build %s: %w", command, err)
	}
	defer os.RemoveAll(scratch)
	fresh := filepath.Join(scratch, filepath.Base(binary))
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-pgo=auto", "-o", fresh, command)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("servers: build %s: %w\n%s", command, err, out)
	}
	if err := os.Rename(fresh, binary); err != nil {
		return fmt.Errorf("servers: build %s: %w", command, err)
	}
	return nil
}

// Root returns the top of the source tree: the nearest directory above the working
// directory that contains go.work.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("servers: source tree: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("servers: source tree: no go.work above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

func (c *conclave) command(ctx context.Context, configFile string, o Options) ([]string, error) {
	binary, err := c.Binary(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{binary, "serve", "--config", configFile}
	for _, name := range sortedNames(o.Properties) {
		args = append(args, "-D", name+"="+o.Properties[name])
	}
	return args, nil
}
