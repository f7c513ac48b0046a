package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
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
)

// target is a system that programs are built for.
type target struct{ system, machine string }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

// commands are the programs, with the directories of their sources.
var commands = map[string]string{"conclave": "cmd/conclave", "conclave-stores": "cmd/conclave/conclave-stores"}

// programs returns the files of a target, and the source of each. On Windows a process
// cannot execute another program in its place, so conclave itself contains all stores.
func (t target) programs() map[string]string {
	if t.system == "windows" {
		return map[string]string{"conclave.exe": commands["conclave-stores"]}
	}
	return commands
}

// choose returns the named targets, or all if none is named.
func choose(names []string) ([]target, error) {
	if len(names) == 0 {
		return targets, nil
	}
	var chosen []target
	for _, name := range names {
		i := slices.IndexFunc(targets, func(t target) bool { return t.system+"/"+t.machine == name })
		if i < 0 {
			return nil, fmt.Errorf("no programs are made for %q, but for %v", name, targets)
		}
		chosen = append(chosen, targets[i])
	}
	return chosen, nil
}

// dist builds the programs of a version into an empty directory: a directory for each
// target, with a bill of materials beside each program, and SHA256SUMS for everything.
// Everything is built twice, from two clones, the second time with an empty build cache. A
// difference is an error.
func dist(version, dir string, names []string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	if _, err := parseVersion(version); err != nil {
		return err
	}
	if err := checkTagged(version); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty", dir))
	}
	scratch, err := os.MkdirTemp("", "dist-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	var sums []string
	for _, t := range chosen {
		made, err := t.build(version, dir, scratch)
		if err != nil {
			return err
		}
		sums = append(sums, made...)
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644)
}

// checkTagged ensures that exactly the tagged commit is built.
func checkTagged(version string) error {
	tags, err := output(".", "git", "tag", "--points-at", "HEAD")
	if err != nil {
		return err
	}
	changed, err := output(".", "git", "status", "--porcelain", "--untracked-files=no")
	switch {
	case err != nil:
		return err
	case !slices.Contains(strings.Fields(tags), version):
		return fmt.Errorf("%s is not tagged here: check it out, or make it with release prepare %s", version, version)
	case changed != "":
		return errors.New("the tree has changes")
	}
	return nil
}

// build makes the files of a target and returns their lines for SHA256SUMS.
func (t target) build(version, dir, scratch string) ([]string, error) {
	folder := fmt.Sprintf("conclave-%s-%s-%s", strings.TrimPrefix(version, "v"), t.system, t.machine)
	var sums []string
	programs := t.programs()
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		path := filepath.Join(folder, name)
		first, err := t.compile(version, programs[name], filepath.Join(dir, path))
		if err != nil {
			return nil, err
		}
		second, err := t.compile(version, programs[name], filepath.Join(scratch, path), "GOCACHE="+filepath.Join(scratch, "cache"))
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(first, second) {
			return nil, fmt.Errorf("%s: two builds differ", path)
		}
		bill, err := billOf(filepath.Join(dir, path), version)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, path+".cdx.json"), bill, 0o644); err != nil {
			return nil, err
		}
		sums = append(sums, sumLine(first, path), sumLine(bill, path+".cdx.json"))
		fmt.Printf("%9d bytes  %s\n", len(first), path)
	}
	return sums, nil
}

// compile builds a program from a new clone, in a directory that no other build used, and
// returns its bytes.
func (t target) compile(version, source, to string, more ...string) ([]byte, error) {
	to, err := filepath.Abs(to)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	tree := filepath.Join(scratch, "tree")
	if _, err := output(".", "git", "clone", "--quiet", "--shared", "--branch", version, ".", tree); err != nil {
		return nil, err
	}
	if err := errors.Join(carryLaboratory(tree), carryDocs(tree, version)); err != nil {
		return nil, err
	}
	env := append(more, "GOOS="+t.system, "GOARCH="+t.machine, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=", "GOAMD64=", "GOARM64=")
	if _, err := outputWith(env, tree, "go", "build", "-trimpath", "-buildvcs=true", "-tags=labcarried", "-ldflags=-s -w", "-o", to, "./"+source); err != nil {
		return nil, err
	}
	return os.ReadFile(to)
}

// carryLaboratory puts the laboratory's machines where the program embeds them (package
// labsite).
func carryLaboratory(tree string) error {
	site := filepath.Join(tree, "cmd", "conclave", "internal", "labsite")
	built := filepath.Join(site, "built")
	if err := os.MkdirAll(built, 0o755); err != nil {
		return err
	}
	wasm := filepath.Join(built, "lab.wasm")
	env := []string{"GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK="}
	if _, err := outputWith(env, filepath.Join(site, "wasm"), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", wasm, "."); err != nil {
		return err
	}
	content, err := os.ReadFile(wasm)
	if err != nil {
		return err
	}
	small, err := packed(content, gzip.BestCompression)
	if err != nil {
		return err
	}
	root, err := output(tree, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	loader, err := os.ReadFile(filepath.Join(root, "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(wasm), os.WriteFile(wasm+".gz", small, 0o644),
		os.WriteFile(filepath.Join(built, "wasm_exec.js"), loader, 0o644))
}

// carryDocs puts the documentation where the program embeds it (package docsite). The
// archive has no times, so the same pages yield the same bytes.
func carryDocs(tree, version string) error {
	scratch, err := os.MkdirTemp("", "docs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if _, err := outputWith([]string{"GOFLAGS=", "GOWORK=off"}, filepath.Join(tree, "tools", "site"), "go", "run", ".", "-o", scratch, "-version", version, "-runs"); err != nil {
		return err
	}
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	err = filepath.WalkDir(scratch, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(scratch, name)
		if err != nil {
			return err
		}
		file, err := w.Create(filepath.ToSlash(below))
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		return err
	})
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	built := filepath.Join(tree, "cmd", "conclave", "internal", "docsite", "built")
	return errors.Join(os.MkdirAll(built, 0o755), os.WriteFile(filepath.Join(built, "site.zip"), packed.Bytes(), 0o644))
}

func sumLine(content []byte, path string) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]) + "  " + filepath.ToSlash(path) + "\n"
}
