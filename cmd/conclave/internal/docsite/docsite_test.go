package docsite

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
)

func TestPagesAndTheLaboratoryAreServed(t *testing.T) {
	site := fstest.MapFS{"index.html": {Data: []byte("<!doctype html>all")}, "dev/index.html": {Data: []byte("<!doctype html>dev")}}
	asked := 0
	lab := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "lab "+r.URL.Path) })
	handler := Handler(site, func() (http.Handler, error) { asked++; return lab, nil })
	for path, want := range map[string]string{"/": "all", "/dev/": "dev", "/dev/lab/": "lab /", "/dev/lab/lab.js": "lab /lab.js", "/v1/lab/x": "lab /x"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if policy := w.Header().Get("Content-Security-Policy"); (policy == "") != strings.Contains(path, "/lab/") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
	}
	if asked != 1 {
		t.Errorf("the laboratory was asked for %d times", asked)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/dev/none.html", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("a page that is not there: %d", w.Code)
	}
	failing := Handler(site, func() (http.Handler, error) { return nil, errors.New("no compiler") })
	w = httptest.NewRecorder()
	failing.ServeHTTP(w, httptest.NewRequest("GET", "/dev/lab/", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no compiler") {
		t.Errorf("without the laboratory: %d %s", w.Code, w.Body)
	}
}
