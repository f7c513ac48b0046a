//go:build linux

package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
)

// config is the text of zoo.cfg. Keys that Apache does not know itself become
// its properties "zookeeper.<key>", which is how extended types are turned on.
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

// mergeLines lets a later line replace an earlier one of the same key: a key
// that stands twice is a mistake to a careful reader of zoo.cfg.
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

// FreePort is a port of 127.0.0.1 on which nobody listens. It lies below the
// range of Linux's outgoing connections: a client that dials a port of that
// range again and again while the server is down can connect to itself.
func FreePort() (int, error) {
	for range 200 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("servers: no free port on 127.0.0.1 between 20000 and 32000")
}
