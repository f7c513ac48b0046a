package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
)

// bill is a bill of materials in the format CycloneDX 1.5: which modules a
// program was built from.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	URL     string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// billOf reads what the Go tool has recorded in a program. There is no date and no serial
// number, so the same program has the same bill.
func billOf(path, version string) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata:   metadata{component{Type: "application", Name: info.Path, Version: version, URL: packageURL(info.Main.Path, version)}},
		Components: []component{{Type: "library", Name: "std", Version: info.GoVersion, URL: packageURL("std", strings.TrimPrefix(info.GoVersion, "go"))}},
	}
	for _, m := range info.Deps {
		one, err := componentOf(m, version)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		b.Components = append(b.Components, one)
	}
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// componentOf describes a module: a module of the workspace has the released version and no
// sum.
func componentOf(m *debug.Module, released string) (component, error) {
	if m.Replace != nil || m.Version == "(devel)" || m.Sum == "" {
		return component{Type: "library", Name: m.Path, Version: released, URL: packageURL(m.Path, released)}, nil
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != 32 {
		return component{}, fmt.Errorf("the sum of %s is %q", m.Path, m.Sum)
	}
	return component{Type: "library", Name: m.Path, Version: m.Version, URL: packageURL(m.Path, m.Version),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum)}}}, nil
}

func packageURL(path, version string) string { return "pkg:golang/" + path + "@" + version }
