// Package docsite is the documentation as a site, with the laboratory in it.
//
// Its pages come from one of two places. A released conclave carries them. One that was built from
// a clone has the go command run tools/site there, which makes them of the Markdown.
package docsite

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// ErrNoSources says that this program cannot have the pages made.
var ErrNoSources = errors.New("this conclave was built without the documentation, and its sources are not here")

// Load returns the site: what the program carries, or else it is made, below the cache directory
// of the user.
func Load(ctx context.Context) (fs.FS, error) {
	if carried != nil {
		return zip.NewReader(bytes.NewReader(carried), int64(len(carried)))
	}
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "..", "..", "..", "..", "tools", "site")
	if _, err := os.Stat(filepath.Join(source, "main.go")); err != nil || !filepath.IsAbs(here) {
		return nil, ErrNoSources
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "conclave", "docs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "go", "run", ".", "-o", dir, "-runs")
	command.Dir, command.Env = source, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if text, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go run tools/site: %w\n%s", err, bytes.TrimSpace(text))
	}
	return os.DirFS(dir), nil
}

// policy lets a page load nothing from elsewhere, and show the laboratory.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; frame-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves a site, and the laboratory below each of its versions. The laboratory is asked for
// once somebody opens it, which may take as long as a build. It is safe for concurrent use.
func Handler(site fs.FS, laboratory func() (http.Handler, error)) http.Handler {
	files, lab := http.FileServerFS(site), sync.OnceValues(laboratory)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		version, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if rest == "lab" || strings.HasPrefix(rest, "lab/") {
			handler, err := lab()
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			http.StripPrefix("/"+version+"/lab", handler).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", policy)
		files.ServeHTTP(w, r)
	})
}
