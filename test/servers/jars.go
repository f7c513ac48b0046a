//go:build linux

package servers

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// installing prevents two tests of one process from running Maven at the same time.
var installing sync.Mutex

// Jars returns the class path of what a Maven project depends on, and has Maven download what is
// missing. The list of the jars is stored under the given name in the directory of CacheDir, so Maven
// runs once for each text of the project and its arguments.
func Jars(ctx context.Context, name string, project []byte, args ...string) (string, error) {
	installing.Lock()
	defer installing.Unlock()
	home, err := homeOf(name)
	if err != nil {
		return "", err
	}
	list := filepath.Join(home, "classpath")
	asked := append(bytes.Clone(project), strings.Join(args, "\n")...)
	if same(filepath.Join(home, "asked"), asked) {
		if jars, err := jarsIn(home); err == nil {
			return jars, nil
		}
	}
	file := filepath.Join(home, "pom.xml")
	if err := replace(file, project); err != nil {
		return "", fmt.Errorf("servers: install %s: %w", name, err)
	}
	// Another process may be reading the list.
	fresh := fmt.Sprintf("%s.%d", list, os.Getpid())
	args = append([]string{"-q", "-B", "-f", file, "dependency:build-classpath", "-Dmdep.outputFile=" + fresh}, args...)
	if out, err := exec.CommandContext(ctx, "mvn", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("servers: install %s with mvn: %w\n%s", name, err, out)
	}
	if err := os.Rename(fresh, list); err != nil {
		return "", fmt.Errorf("servers: install %s: %w", name, err)
	}
	if err := replace(filepath.Join(home, "asked"), asked); err != nil {
		return "", fmt.Errorf("servers: install %s: %w", name, err)
	}
	return jarsIn(home)
}

// homeOf returns the directory of a list of jars, and creates it if necessary.
func homeOf(name string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, name)
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", fmt.Errorf("servers: install %s: %w", name, err)
	}
	return home, nil
}

// jarsIn reads a stored list and checks that all jars still exist.
func jarsIn(home string) (string, error) {
	list, err := os.ReadFile(filepath.Join(home, "classpath"))
	if err != nil {
		return "", fmt.Errorf("servers: class path of %s: %w", filepath.Base(home), err)
	}
	jars := strings.TrimSpace(string(list))
	for jar := range strings.SplitSeq(jars, ":") {
		if _, err := os.Stat(jar); err != nil {
			return "", fmt.Errorf("servers: class path of %s: %w", filepath.Base(home), err)
		}
	}
	return jars, nil
}

// same reports whether a file has this content.
func same(name string, data []byte) bool {
	there, err := os.ReadFile(name)
	return err == nil && bytes.Equal(there, data)
}

// replace replaces the content of a file atomically: another process may be reading it.
func replace(name string, data []byte) error {
	if same(name, data) {
		return nil
	}
	fresh := fmt.Sprintf("%s.%d", name, os.Getpid())
	if err := os.WriteFile(fresh, data, 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, name)
}
