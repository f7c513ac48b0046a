//go:build linux

package stores

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// goBuild builds a package with the recipe's module (src/NAME) into a file of the cache
// directory. The package is "." or any package that the module requires.
func goBuild(ctx context.Context, module, pkg, cache, file string, flags ...string) error {
	dir, err := recipe{name: module}.moduleDir()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-buildvcs=false", "-o", filepath.Join(cache, file)}, flags...)
	return run(ctx, dir, []string{"GOWORK=off"}, "go", append(args, pkg)...)
}

// npmInstall installs npm packages, such as "dynalite@4.0.0", below the cache directory.
func npmInstall(ctx context.Context, cache string, packages ...string) error {
	args := []string{"install", "--no-audit", "--no-fund", "--no-save", "--omit=dev", "--prefix", cache}
	return run(ctx, cache, nil, "npm", append(args, packages...)...)
}

// debUnpack downloads Debian packages and unpacks them below root in the cache directory,
// which needs no privileges and starts nothing.
func debUnpack(ctx context.Context, cache string, packages ...string) error {
	if err := run(ctx, cache, nil, "apt-get", append([]string{"download"}, packages...)...); err != nil {
		return fmt.Errorf("%w\n(apt-get update helps if a version is gone from the mirror)", err)
	}
	debs, err := filepath.Glob(filepath.Join(cache, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if err := run(ctx, cache, nil, "dpkg", "-x", deb, filepath.Join(cache, "root")); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command in a directory; an error contains its output.
func run(ctx context.Context, dir string, environment []string, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), environment...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
