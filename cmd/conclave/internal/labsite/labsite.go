// Package labsite serves the laboratory as a web page: package lab compiled to WebAssembly,
// and the files that show it.
//
// The compiled machines come from one of two places. A release of conclave contains them. A
// program built from source, by "go build", "go run" or "go install", has the go command
// make them from the same sources, once; that takes as long as a build.
package labsite

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

//go:embed site
var pages embed.FS

// The files beside the pages: the machines, and Go's own loader for them.
const (
	wasmFile   = "lab.wasm"
	loaderFile = "wasm_exec.js"
)

// Machines are the compiled laboratory and its loader.
type Machines struct {
	Wasm, Loader []byte
}

// ErrNoSources says that this program cannot have the machines made.
var ErrNoSources = errors.New("this conclave was built without the laboratory's machines, and its sources are not here")

// Load returns the machines that the program contains. If it contains none, they are built
// with the go command, below the user's cache directory.
func Load(ctx context.Context) (Machines, error) {
	if carried.Wasm != nil {
		return unpack(carried)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return Machines{}, err
	}
	cache = filepath.Join(cache, "conclave", "lab")
	_, here, _, _ := runtime.Caller(0)
	if _, rest, installed := strings.Cut(here, module+"@"); installed {
		version, _, _ := strings.Cut(rest, "/")
		return install(ctx, version, cache)
	}
	source := filepath.Join(filepath.Dir(here), "wasm")
	if _, err := os.Stat(filepath.Join(source, "main.go")); err != nil || !filepath.IsAbs(here) {
		return Machines{}, ErrNoSources
	}
	to := filepath.Join(cache, wasmFile)
	return made(ctx, to, source, nil, "build", "-o", to, ".")
}

// Carried returns the machines that the program contains; ok is false if it contains none.
func Carried() (m Machines, ok bool, err error) {
	if carried.Wasm == nil {
		return Machines{}, false, nil
	}
	m, err = unpack(carried)
	return m, err == nil, err
}

// module is the module that contains this package.
const module = "github.com/conclave-project/conclave/cmd/conclave"

// install has the go command build the machines of a version, just as "go install" built
// this program.
func install(ctx context.Context, version, cache string) (Machines, error) {
	kept, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return Machines{}, fmt.Errorf("go env GOMODCACHE: %w", err)
	}
	// The go command puts programs for another system below GOPATH.
	env := []string{"GOPATH=" + cache, "GOMODCACHE=" + strings.TrimSpace(string(kept)), "GOBIN=", "GOWORK=off"}
	return made(ctx, filepath.Join(cache, "bin", "js_wasm", "wasm"), "", env, "install", module+"/internal/labsite/wasm@"+version)
}

// made has the go command build the machines, and returns them. They are linked again only
// after a change.
func made(ctx context.Context, to, dir string, env []string, verb string, args ...string) (m Machines, err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return m, err
	}
	command := exec.CommandContext(ctx, "go", append([]string{verb, "-trimpath", "-ldflags=-s -w"}, args...)...)
	command.Dir = dir
	command.Env = append(append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS="), env...)
	if text, err := command.CombinedOutput(); err != nil {
		return m, fmt.Errorf("go %s of the laboratory's machines: %w\n%s", verb, err, bytes.TrimSpace(text))
	}
	where := exec.CommandContext(ctx, "go", "env", "GOROOT")
	where.Dir, where.Env = dir, command.Env // the loader must come from the same Go release
	root, err := where.Output()
	if err != nil {
		return m, fmt.Errorf("go env GOROOT: %w", err)
	}
	if m.Loader, err = os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", loaderFile)); err != nil {
		return m, err
	}
	m.Wasm, err = os.ReadFile(to)
	return m, err
}

// unpack decompresses the machines that the program contains.
func unpack(m Machines) (Machines, error) {
	r, err := gzip.NewReader(bytes.NewReader(m.Wasm))
	if err != nil {
		return Machines{}, err
	}
	wasm, err := io.ReadAll(r)
	return Machines{Wasm: wasm, Loader: m.Loader}, err
}

// Export writes the site into a directory that is empty or does not exist. Any file server
// can serve it, below any path.
func Export(m Machines, dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	site, err := fs.Sub(pages, "site")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, site); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, wasmFile), m.Wasm, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, loaderFile), m.Loader, 0o644)
}

// policy forbids the page to load anything from elsewhere, and to run scripts other than
// its own.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; " +
	"style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

// Handler serves the site. It is safe for concurrent use.
func Handler(m Machines) (http.Handler, error) {
	site, err := fs.Sub(pages, "site")
	if err != nil {
		return nil, err
	}
	packed, err := pack(m.Wasm)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(site))
	mux.HandleFunc("GET /"+wasmFile, func(w http.ResponseWriter, r *http.Request) {
		body := m.Wasm
		w.Header().Set("Content-Type", "application/wasm")
		w.Header().Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			body = packed
		}
		http.ServeContent(w, r, wasmFile, time.Time{}, bytes.NewReader(body))
	})
	mux.HandleFunc("GET /"+loaderFile, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, loaderFile, time.Time{}, bytes.NewReader(m.Loader))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	}), nil
}

func pack(b []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	err = w.Close()
	return packed.Bytes(), err
}
