//go:build linux

package servers

import (
	"fmt"
	"os"
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

// Chosen returns the kind that an environment variable names: Conclave if it is not set.
func Chosen(variable string) (Kind, error) {
	name := os.Getenv(variable)
	if name == "" {
		return Conclave(), nil
	}
	kind, err := Named(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return kind, nil
}
