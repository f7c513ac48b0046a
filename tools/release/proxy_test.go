//go:build release && linux

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conclave-project/conclave/internal/childtest"
	"github.com/conclave-project/conclave/test/stores"
)

// prefix is the prefix of the paths of all modules of the tree.
const prefix = "github.com/conclave-project/conclave"

// proved is the version that the test makes, in a clone, so nobody sees it.
const proved = "v0.999.0"

// repository is where the go command looks for the modules.
const repository = "https://" + prefix

// TestOutsidersInstallTheCommandAndElect makes a version in a clone, as `make release`
// does. The go command fetches all its modules by their tags into a module proxy of files.
// Outside the tree, with only this proxy, the test installs the command and builds a
// program. Modules of other authors come from this machine's module cache.
func TestOutsidersInstallTheCommandAndElect(t *testing.T) {
	clone := makeVersion(t)
	away := &outsider{t: t, dir: t.TempDir()}
	away.env = []string{"GOPROXY=" + fileURL(publish(t, clone)) + "," + othersModules(t), "GOSUMDB=off",
		"GOWORK=off", "GOFLAGS=-modcacherw -trimpath", // so modules of other authors are compiled only once
		"GOMODCACHE=" + t.TempDir(), "GOBIN=" + filepath.Join(away.dir, "bin"), "GOPATH=", "CONCLAVE_STORE="}
	away.write("main.go", "testdata/outside/main.go")

	away.sh("go install github.com/conclave-project/conclave/cmd/conclave@" + proved)
	if got := away.sh("bin/conclave version"); !strings.Contains(got, "conclave "+proved[1:]+" ") {
		t.Errorf("the installed command says %q", got)
	}
	away.sh("bin/conclave lab --export laboratory && test -s laboratory/lab.wasm") // built from the module's sources
	away.sh("go mod init example.com/outside")
	away.sh("go get github.com/conclave-project/conclave@" + proved + " github.com/conclave-project/conclave/election/backend/etcd@" + proved)
	away.sh("go build -o bin/outside .")

	etcd, servers := stores.Start(t, "etcd"), away.serve()
	got := away.sh(fmt.Sprintf("bin/outside %s/elections %s %s", away.dir, servers, etcd.URL))
	if want := "file elected outsider true\nzookeeper elected outsider true\netcd elected outsider true"; got != want {
		t.Errorf("the program printed\n%s", got)
	}
	if got := away.sh("bin/conclave run demo -q --store zk://" + servers + " -- echo leads"); got != "leads" {
		t.Errorf("the command on ZooKeeper printed %q", got)
	}
	away.becomesStores(etcd.URL)
	away.manages()
}

// manages: a controller in a module of its own elects with the published election package
// and its own clock.
func (o *outsider) manages() {
	dir := filepath.Join(o.dir, "manager")
	if err := os.Mkdir(dir, 0o700); err != nil {
		o.t.Fatal(err)
	}
	o.write("manager/main.go", "testdata/outside/manager/main.go")
	o.sh("cd manager && go mod init example.com/manager && go get github.com/conclave-project/conclave/election/controller@" + proved +
		" && go get . && go build -o ../bin/manager .")
	if got := o.sh("bin/manager " + filepath.Join(o.dir, "managed")); got != "manager elected outsider true\nits clock was asked: true" {
		o.t.Errorf("the controller printed\n%s", got)
	}
}

// becomesStores: without conclave-stores, the hint is a line that installs it, and after
// that the same command line works.
func (o *outsider) becomesStores(url string) {
	run := "bin/conclave run demo -q --store " + url + " -- echo leads"
	said := o.sh(run + " 2>&1 || true")
	hint := regexp.MustCompile(`(?m)^hint: (.*)$`).FindStringSubmatch(said)
	if hint == nil || !strings.HasSuffix(hint[1], "/conclave-stores@"+proved) {
		o.t.Fatalf("without conclave-stores:\n%s", said)
	}
	o.sh(hint[1])
	if got := o.sh(run); got != "leads" {
		o.t.Errorf("the command on etcd printed %q", got)
	}
}

// makeVersion clones the last commit and makes a version of it.
func makeVersion(t *testing.T) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	must(t, nil, "../..", "git", "clone", "--quiet", "--shared", "--no-checkout", "--no-tags", ".", clone)
	must(t, nil, clone, "git", "checkout", "--quiet", "--detach", must(t, nil, ".", "git", "rev-parse", "HEAD"))
	identity := []string{"GIT_AUTHOR_NAME=proof", "GIT_AUTHOR_EMAIL=proof@example.com", "GIT_COMMITTER_NAME=proof", "GIT_COMMITTER_EMAIL=proof@example.com"}
	must(t, identity, clone, "go", "run", "./tools/release", "prepare", proved)
	must(t, nil, clone, "go", "list", "-deps", "work") // the version's tree is still consistent
	return clone
}

// publish has the go command fetch the tagged modules from the clone, and returns the
// directory that is filled thereby, which is a module proxy.
func publish(t *testing.T, clone string) string {
	t.Helper()
	tags := must(t, nil, clone, "git", "tag", "--list")
	args := []string{"mod", "download"}
	for tag := range strings.FieldsSeq(tags) {
		dir := strings.TrimSuffix(strings.TrimSuffix(tag, proved), "/")
		args = append(args, strings.TrimSuffix(prefix+"/"+dir, "/")+"@"+proved)
	}
	if len(args) < 10 {
		t.Fatalf("few modules are tagged: %s", tags)
	}
	cache := t.TempDir()
	must(t, []string{"GOPROXY=direct", "GOSUMDB=off", "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + cache,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + fileURL(clone) + ".insteadOf", "GIT_CONFIG_VALUE_0=" + repository},
		t.TempDir(), "go", args...)
	return filepath.Join(cache, "cache", "download")
}

// othersModules makes a module proxy from the machine's module cache. The go command
// fetches what is missing: the tree's workspace may have chosen newer versions than
// somebody outside does. It contains no module of the tree.
func othersModules(t *testing.T) string {
	cache := filepath.Join(must(t, nil, ".", "go", "env", "GOMODCACHE"), "cache", "download")
	away := t.TempDir()
	var fetching sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		module, file, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/@v/")
		if !ok || strings.HasPrefix(module, prefix) {
			http.NotFound(w, r)
			return
		}
		name := filepath.Join(cache, filepath.FromSlash(r.URL.Path))
		if _, err := os.Stat(name); err != nil && file != "list" {
			fetching.Lock()
			out, err := outputWith([]string{"GOWORK=off", "GOFLAGS="}, away, "go", "mod", "download",
				unescaped(module)+"@"+unescaped(strings.TrimSuffix(file, path.Ext(file))))
			fetching.Unlock()
			if err != nil {
				http.Error(w, out+err.Error(), http.StatusNotFound)
				return
			}
		}
		http.ServeFile(w, r, name)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// unescaped returns a path or version as people write it: a proxy writes !a for A.
func unescaped(escaped string) string {
	return regexp.MustCompile("![a-z]").ReplaceAllStringFunc(escaped, func(s string) string { return strings.ToUpper(s[1:]) })
}

func fileURL(path string) string { return "file://" + path }

// outsider is a user who knows the tree only through the proxy.
type outsider struct {
	t   *testing.T
	dir string
	env []string
}

// sh runs a line of shell, which must succeed, and returns what it printed.
func (o *outsider) sh(line string) string {
	o.t.Helper()
	return must(o.t, o.env, o.dir, "sh", "-c", line)
}

func (o *outsider) write(name, from string) {
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(filepath.Join(o.dir, name), text, 0o600)
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// serve starts the installed command as a server for ZooKeeper's clients.
func (o *outsider) serve() string {
	address := fmt.Sprintf("127.0.0.1:%d", childtest.Port(o.t))
	c := exec.Command(filepath.Join(o.dir, "bin", "conclave"), "dev", "--servers", "1", "--port", address[len("127.0.0.1:"):])
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+o.t.TempDir())
	childtest.Start(o.t, c)
	o.sh(fmt.Sprintf("for i in $(seq 300); do bin/conclave ls / -s %s --timeout 1s >/dev/null 2>&1 && exit; done; exit 1", address))
	return address
}

// must runs a command, logs how long it took, and returns what it prints.
func must(t *testing.T, env []string, dir, name string, args ...string) string {
	t.Helper()
	began := time.Now()
	out, err := outputWith(env, dir, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%5.1f s  %s %s", time.Since(began).Seconds(), name, strings.Join(args, " "))
	return out
}
