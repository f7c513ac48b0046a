// Package docsite serves the documentation as a site that includes the laboratory.
//
// Its pages come from one of two places. A release of conclave contains them. A program
// that was built from a clone has the go command run tools/site there, which makes the
// pages from the Markdown.
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

// Load returns the site: the one in the program, or else a new one, made below the user's
// cache directory.
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

// policy forbids a page to load anything from elsewhere, and lets it show the laboratory.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; frame-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves a site, and the laboratory below each of its versions. It calls laboratory
// when the first visitor opens it, which may take as long as a build. It is safe for
// concurrent use.
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
