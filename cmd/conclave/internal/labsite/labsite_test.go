package labsite

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/lab"
)

// machines stand in for the compiled ones: no test of the site runs them.
var machines = Machines{Wasm: []byte("\x00asm machines"), Loader: []byte("loader")}

// load returns what a browser would receive.
func load(t *testing.T, h http.Handler, path string, header http.Header) *http.Response {
	t.Helper()
	r := httptest.NewRequest("GET", path, nil)
	r.Header = header
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSiteHasAllThatItLoads also checks that the site loads nothing from other
// places.
func TestSiteHasAllThatItLoads(t *testing.T) {
	h, err := Handler(machines)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?:src|href)="([^"#]+)"|from "\./([^"]+)"|Worker\("([^"]+)"\)|importScripts\("([^"]+)"\)|fetch\("([^"]+)"\)`)
	seen := map[string]bool{}
	for todo := []string{"index.html"}; len(todo) > 0; todo = todo[1:] {
		name := todo[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		path := "/" + strings.TrimPrefix(name, "index.html")
		response := load(t, h, path, nil)
		if response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %s, policy %q", name, response.Status, response.Header.Get("Content-Security-Policy"))
		}
		text := body(t, response.Body)
		if strings.Contains(text, "://") && !strings.HasSuffix(name, ".svg") && !strings.Contains(text, `"http://www.w3.org/2000/svg"`) {
			t.Errorf("%s names another place", name)
		}
		for _, found := range named.FindAllStringSubmatch(text, -1) {
			todo = append(todo, slices.DeleteFunc(found[1:], func(s string) bool { return s == "" })...)
		}
	}
	for _, name := range []string{"lab.js", "scene.js", "text.js", "engine.js", "worker.js", "lab.css", wasmFile, loaderFile} {
		if !seen[name] {
			t.Errorf("nothing loads %s", name)
		}
	}
	if status := load(t, h, "/none", nil).StatusCode; status != http.StatusNotFound {
		t.Errorf("a page that there is not: %d", status)
	}
}

// TestMachinesAreCompressedForThoseWhoTakeThat checks both a browser that accepts
// gzip and one that does not.
func TestMachinesAreCompressedForThoseWhoTakeThat(t *testing.T) {
	h, err := Handler(machines)
	if err != nil {
		t.Fatal(err)
	}
	plain := load(t, h, "/"+wasmFile, nil)
	if got := body(t, plain.Body); got != string(machines.Wasm) || plain.Header.Get("Content-Type") != "application/wasm" {
		t.Errorf("%q of type %q", got, plain.Header.Get("Content-Type"))
	}
	packed := load(t, h, "/"+wasmFile, http.Header{"Accept-Encoding": {"br, gzip"}})
	r, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, r); got != string(machines.Wasm) || packed.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%q, encoded as %q", got, packed.Header.Get("Content-Encoding"))
	}
}

// TestExportWritesOverNothing exports to a directory that has files.
func TestExportWritesOverNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "site")
	if err := Export(machines, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index.html", "lab.js", wasmFile, loaderFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if err := Export(machines, dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("exported over a directory with files: %v", err)
	}
}

// TestBothLanguagesSayAll checks the texts that the page asks for, and those of the
// machines.
func TestBothLanguagesSayAll(t *testing.T) {
	text := func(name string) string {
		b, err := pages.ReadFile("site/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	_, english, _ := strings.Cut(text("text.js"), "en: {")
	english, chinese, _ := strings.Cut(english, "zh: {")
	chinese, said, _ := strings.Cut(chinese, "};")
	keyed := regexp.MustCompile(`(?:, |\n\s*)["']?([a-z-]+)["']?: "`)
	keys := func(text string) (all []string) {
		for _, found := range keyed.FindAllStringSubmatch(text, -1) {
			all = append(all, found[1])
		}
		slices.Sort(all)
		return all
	}
	if en, zh := keys(english), keys(chinese); len(en) < 40 || !slices.Equal(en, zh) {
		t.Errorf("English has\n%q\nChinese has\n%q", en, zh)
	}
	asked := regexp.MustCompile(`data-(?:text|title|label)="([a-z-]+)"|\bsay\("([a-z-]+)"\)`)
	for _, name := range []string{"index.html", "lab.js", "scene.js"} {
		for _, found := range asked.FindAllStringSubmatch(text(name), -1) {
			if key := found[1] + found[2]; !slices.Contains(keys(english), key) {
				t.Errorf("%s asks for %q", name, key)
			}
		}
	}
	for _, algorithm := range lab.Algorithms() {
		sentences := []string{lab.Title(algorithm)}
		w, err := lab.New(lab.Spec{Algorithm: algorithm, Servers: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range w.Frame(0).Rules {
			sentences = append(sentences, r.Text)
		}
		for _, sentence := range sentences {
			if !strings.Contains(said, `"`+sentence+`":`) {
				t.Errorf("text.js does not have %q in Chinese", sentence)
			}
		}
	}
}
