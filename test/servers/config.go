//go:build linux

package servers

import (
	"fmt"
	"strings"
)

// SuperDigest is a line of zoo.cfg that makes the digest identity SuperSecret the super
// user, who may reconfigure.
const (
	SuperDigest = "DigestAuthenticationProvider.superDigest=super:/49OUaS/Rm5CIudE7EhYoMwy+PY="
	SuperSecret = "super:interop"
)

// config returns the text of zoo.cfg. Apache turns keys that it does not know into
// properties "zookeeper.<key>", which is how extended types are switched on.
func config(dataDir string, port int, o Options) string {
	lines := []string{
		"tickTime=2000",
		"dataDir=" + dataDir,
		"clientPortAddress=127.0.0.1",
		fmt.Sprintf("clientPort=%d", port),
		"maxClientCnxns=0",
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"extendedTypesEnabled=true",
	}
	return strings.Join(mergeLines(lines, o.Config), "\n") + "\n"
}

// mergeLines lets a later line replace an earlier one with the same key, because a strict
// reader of zoo.cfg refuses a key that occurs twice.
func mergeLines(defaults, extra []string) []string {
	given := map[string]bool{}
	for _, line := range extra {
		key, _, _ := strings.Cut(line, "=")
		given[strings.TrimSpace(key)] = true
	}
	var lines []string
	for _, line := range defaults {
		key, _, _ := strings.Cut(line, "=")
		if !given[key] {
			lines = append(lines, line)
		}
	}
	return append(lines, extra...)
}
