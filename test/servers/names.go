//go:build linux

package servers

import (
	"fmt"
	"strings"
)

// Named returns the kind with a name: "conclave", or "apache-" and a version.
func Named(name string) (Kind, error) {
	if version, ok := strings.CutPrefix(name, "apache-"); ok && version != "" {
		return Apache(version), nil
	}
	if name == "conclave" {
		return Conclave(), nil
	}
	return nil, fmt.Errorf("servers: no server %q: say conclave or apache-VERSION, such as apache-%s", name, Apache39)
}
