package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// nfpm makes packages for Debian and Red Hat; it is a tool, not a requirement.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.48.0"

// packing is the state of making packages.
type packing struct {
	version, bare string // v0.2.0 and 0.2.0
	dist, out     string // where the programs are, and where packages are written
	revision      string
	at            time.Time // of the commit; it is the date of everything
	sums          map[string]string
}

// packages makes, from the programs in distDir, what people install, in an empty directory:
// archives, packages for Debian and Red Hat, a container image, the Helm chart, a formula
// for Homebrew, and SHA256SUMS for everything. If distDir does not exist, the programs are
// built first. The same programs yield the same bytes.
func packages(version, distDir, out string) error {
	if _, err := os.Stat(filepath.Join(distDir, "SHA256SUMS")); err != nil {
		if err := dist(version, distDir, nil); err != nil {
			return err
		}
	}
	p, err := newPacking(version, distDir, out)
	if err != nil {
		return err
	}
	present, err := p.targets()
	if err != nil {
		return err
	}
	for _, t := range present {
		if err := p.makeArchive(t); err != nil {
			return err
		}
	}
	var machines []string
	for _, t := range present {
		if t.system == "linux" {
			machines = append(machines, t.machine)
		}
	}
	if len(machines) > 0 {
		if err := errors.Join(p.makeSystemPackages(machines), p.makeImage(machines)); err != nil {
			return err
		}
	}
	if err := p.makeChart(); err != nil {
		return err
	}
	if err := p.makeFormula(); err != nil {
		return err
	}
	return p.writeSums()
}

func newPacking(version, distDir, out string) (*packing, error) {
	if _, err := parseVersion(version); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	if files, err := os.ReadDir(out); err != nil || len(files) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%s is not empty", out))
	}
	date, err1 := output(".", "git", "log", "-1", "--format=%cI")
	revision, err2 := output(".", "git", "rev-parse", "HEAD")
	at, err3 := time.Parse(time.RFC3339, date)
	return &packing{version: version, bare: strings.TrimPrefix(version, "v"), dist: distDir, out: out, revision: revision,
		at: at.UTC(), sums: map[string]string{}}, errors.Join(err1, err2, err3)
}

// folder returns the directory with the programs for a target.
func (p *packing) folder(t target) string { return filepath.Join(p.dist, folderName(p.bare, t)) }

func folderName(bare string, t target) string {
	return fmt.Sprintf("conclave-%s-%s-%s", bare, t.system, t.machine)
}

func archiveName(bare string, t target) string { return folderName(bare, t) + ".tar.gz" }

// targets returns the targets for which dist has programs.
func (p *packing) targets() (present []target, err error) {
	for _, t := range targets {
		if _, err := os.Stat(p.folder(t)); err == nil {
			present = append(present, t)
		}
	}
	if len(present) == 0 {
		return nil, fmt.Errorf("%s has no programs of %s", p.dist, p.version)
	}
	return present, nil
}

// write writes a file and records its sum.
func (p *packing) write(name string, content []byte) error {
	p.sums[name] = strings.TrimPrefix(digest(content), "sha256:")
	fmt.Printf("%9d bytes  %s\n", len(content), name)
	return os.WriteFile(filepath.Join(p.out, name), content, 0o644)
}

// makeArchive packs the directory of a target.
func (p *packing) makeArchive(t target) error {
	files, err := filesBelow(p.folder(t), folderName(p.bare, t)+"/", func(name string) int64 {
		if strings.HasSuffix(name, ".json") {
			return 0o644
		}
		return 0o755
	})
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	files = append(files, entry{name: folderName(p.bare, t) + "/LICENSE", mode: 0o644, body: license})
	return p.writeArchive(archiveName(p.bare, t), files)
}

func (p *packing) writeArchive(name string, files []entry) error {
	archive, err := tarOf(files, p.at)
	if err != nil {
		return err
	}
	content, err := packed(archive, gzip.DefaultCompression)
	if err != nil {
		return err
	}
	return p.write(name, content)
}

// makeChart packs the chart as helm package does, with this version, and renders its
// manifests.
func (p *packing) makeChart() error {
	files, err := filesBelow(filepath.Join("deploy", "chart", "conclave"), "conclave/", func(string) int64 { return 0o644 })
	if err != nil {
		return err
	}
	for i := range files {
		if files[i].name == "conclave/Chart.yaml" {
			files[i].body = bytes.ReplaceAll(files[i].body, []byte("0.0.0-tree"), []byte(p.bare))
		}
	}
	if err := p.writeArchive("conclave-chart-"+p.bare+".tgz", files); err != nil {
		return err
	}
	manifests, err := os.ReadFile(filepath.Join("deploy", "kubernetes", "conclave.yaml"))
	if err != nil {
		return err
	}
	return p.write("conclave-"+p.bare+"-kubernetes.yaml", bytes.ReplaceAll(manifests, []byte("0.0.0-tree"), []byte(p.bare)))
}

// makeFormula writes Homebrew's formula if all archives that it names exist.
func (p *packing) makeFormula() error {
	for _, t := range targets {
		if t.system != "windows" && p.sums[archiveName(p.bare, t)] == "" {
			fmt.Printf("no formula without %s\n", archiveName(p.bare, t))
			return nil
		}
	}
	text, err := formula(p.bare, p.sums)
	if err != nil {
		return err
	}
	return p.write("conclave.rb", []byte(text))
}

func (p *packing) writeSums() error {
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.sums)) {
		fmt.Fprintf(&sums, "%s  %s\n", p.sums[name], name)
	}
	return os.WriteFile(filepath.Join(p.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

// makeSystemPackages has nfpm make a .deb and an .rpm for each machine.
func (p *packing) makeSystemPackages(machines []string) error {
	scratch, err := os.MkdirTemp("", "packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := p.generate(scratch); err != nil {
		return err
	}
	plan, err := os.ReadFile("deploy/packages/nfpm.yaml")
	if err != nil {
		return err
	}
	for _, machine := range machines {
		values := map[string]string{"ARCH": machine, "VERSION": p.version, "PROGRAMS": p.folder(target{"linux", machine}),
			"MADE": scratch, "DATE": p.at.Format(time.RFC3339)}
		filled := filepath.Join(scratch, machine+".yaml")
		text := os.Expand(string(plan), func(name string) string { return values[name] })
		if err := os.WriteFile(filled, []byte(text), 0o644); err != nil {
			return err
		}
		for _, kind := range []string{"deb", "rpm"} {
			name := "conclave-" + p.bare + "-linux-" + machine + "." + kind
			made := filepath.Join(scratch, name)
			env := []string{"GOFLAGS=", fmt.Sprintf("SOURCE_DATE_EPOCH=%d", p.at.Unix())}
			if _, err := outputWith(env, ".", "go", "run", nfpm, "package", "-f", filled, "-p", kind, "-t", made); err != nil {
				return err
			}
			content, err := os.ReadFile(made)
			if err != nil {
				return err
			}
			if err := p.write(name, content); err != nil {
				return err
			}
		}
	}
	return nil
}

// generate writes the other files of packages: man pages, completions, changes.
func (p *packing) generate(dir string) error {
	program := filepath.Join(p.folder(target{runtime.GOOS, runtime.GOARCH}), "conclave")
	if _, err := os.Stat(program); err != nil { // only other machines were built: use a program for this one
		program = filepath.Join(dir, "conclave")
		if _, err := output(".", "go", "build", "-o", program, "./"+commands["conclave"]); err != nil {
			return err
		}
	}
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	man := filepath.Join(dir, "man")
	if _, err := output(".", program, "man", man); err != nil {
		return err
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return err
	}
	made := map[string][]byte{}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(man, page.Name()))
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(man, page.Name())); err != nil {
			return err
		}
		made["man/"+page.Name()+".gz"] = text
	}
	if made["changelog.gz"], err = os.ReadFile("CHANGELOG.md"); err != nil {
		return err
	}
	made["changelog.Debian.gz"] = fmt.Appendf(nil, "conclave (%s-1) unstable; urgency=medium\n\n  * Version %s; its changes are in changelog.gz.\n\n -- The authors of Conclave <noreply@conclave-project.invalid>  %s\n",
		strings.Replace(p.bare, "-", "~", 1), p.bare, p.at.Format(time.RFC1123Z))
	for name, text := range made {
		content, err := packed(text, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), content, 0o644); err != nil {
			return err
		}
	}
	for shell, name := range map[string]string{"bash": "conclave.bash", "zsh": "_conclave"} {
		text, err := output(".", program, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
