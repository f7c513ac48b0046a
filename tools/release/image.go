package main

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// user is the user id of the image's programs, which no host uses.
const user = 65532

// Types of the OCI image format.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    *platform         `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// imageConfig is what a container of the image runs.
type imageConfig struct {
	Created time.Time `json:"created"`
	platform
	Config struct {
		User         string
		ExposedPorts map[string]struct{}
		Env          []string
		Entrypoint   []string
		Cmd          []string
		Volumes      map[string]struct{}
		WorkingDir   string
		Labels       map[string]string
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	} `json:"history"`
}

type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        *descriptor       `json:"config,omitempty"`
	Layers        []descriptor      `json:"layers,omitempty"`
	Manifests     []descriptor      `json:"manifests,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// image is an OCI image layout under construction: its blobs by path.
type image struct {
	blobs []entry
	seen  map[string]bool
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// add stores a blob and returns its descriptor.
func (i *image) add(kind string, content []byte) descriptor {
	name := "blobs/sha256/" + digest(content)[len("sha256:"):]
	if !i.seen[name] {
		i.blobs, i.seen[name] = append(i.blobs, entry{name: name, mode: 0o644, body: content}), true
	}
	return descriptor{MediaType: kind, Digest: digest(content), Size: len(content)}
}

func (i *image) addJSON(kind string, value any) (descriptor, error) {
	text, err := json.Marshal(value)
	return i.add(kind, text), err
}

// annotations returns the annotations of the OCI image format, which are also the image's
// labels.
func annotations(version, revision string, at time.Time) map[string]string {
	const about = "org.opencontainers.image."
	return map[string]string{
		about + "title":         "conclave",
		about + "description":   "Coordination server for ZooKeeper's clients, and leader election",
		about + "version":       version,
		about + "revision":      revision,
		about + "created":       at.Format(time.RFC3339),
		about + "source":        "https://github.com/conclave-project/conclave",
		about + "documentation": "https://github.com/conclave-project/conclave/blob/main/docs/install.md",
		about + "licenses":      "Apache-2.0",
	}
}

// rootFiles returns the image's root directory: programs, authorities, names of users, no
// shell.
func rootFiles(programs map[string][]byte, authorities, license []byte) []entry {
	const accounts = "root:x:0:0:root:/:/sbin/nologin\nconclave:x:65532:65532:conclave:/data:/sbin/nologin\n"
	return []entry{
		{name: "data/", mode: 0o700, own: user},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, body: []byte("root:x:0:\nconclave:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, body: []byte(accounts)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: authorities},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/conclave", mode: 0o755, body: programs["conclave"]},
		{name: "usr/bin/conclave-stores", mode: 0o755, body: programs["conclave-stores"]},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/doc/", mode: 0o755},
		{name: "usr/share/doc/conclave/", mode: 0o755},
		{name: "usr/share/doc/conclave/copyright", mode: 0o644, body: license},
	}
}

// addMachine adds the image for one machine, with the archive as its single layer, and
// returns its manifest.
func (i *image) addMachine(machine, unpackedDigest string, layer []byte, labels map[string]string, at time.Time) (descriptor, *manifest, error) {
	c := imageConfig{Created: at, platform: platform{machine, "linux"}}
	c.Config.User = "65532:65532"
	c.Config.ExposedPorts = map[string]struct{}{"2181/tcp": {}, "2888/tcp": {}, "3888/tcp": {}, "8080/tcp": {}}
	c.Config.Env = []string{"PATH=/usr/bin", "HOME=/data"}
	c.Config.Entrypoint, c.Config.Cmd = []string{"/usr/bin/conclave"}, []string{"serve", "--data-dir", "/data"}
	c.Config.Volumes, c.Config.WorkingDir = map[string]struct{}{"/data": {}}, "/data"
	c.Config.Labels = labels
	c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{unpackedDigest}
	c.History = append(c.History, struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	}{at, "tools/release"})
	config, err := i.addJSON(typeConfig, c)
	if err != nil {
		return descriptor{}, nil, err
	}
	m := &manifest{SchemaVersion: 2, MediaType: typeManifest, Config: &config, Layers: []descriptor{i.add(typeLayer, layer)}, Annotations: labels}
	d, err := i.addJSON(typeManifest, m)
	d.Platform = &platform{machine, "linux"}
	return d, m, err
}

// layout returns the files of an OCI image layout with these manifests. If there is one
// image, the files that docker load reads come first.
func (i *image) layout(version string, one *manifest, manifests ...descriptor) ([]entry, error) {
	index := manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: manifests}
	if one == nil { // several machines: an index of their own under one name
		d, err := i.addJSON(typeIndex, index)
		if err != nil {
			return nil, err
		}
		index.Manifests = []descriptor{d}
	}
	index.Manifests[0].Annotations = map[string]string{"org.opencontainers.image.ref.name": version}
	text, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	files := []entry{{name: "oci-layout", mode: 0o644, body: []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {name: "index.json", mode: 0o644, body: text}}
	if one != nil {
		path := func(d descriptor) string { return "blobs/sha256/" + d.Digest[len("sha256:"):] }
		loaded, err := json.Marshal([]any{map[string]any{"Config": path(*one.Config), "RepoTags": []string{"conclave:" + version}, "Layers": []string{path(one.Layers[0])}}})
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name: "manifest.json", mode: 0o644, body: loaded})
	}
	return append(files, i.blobs...), nil
}

// makeImage writes image/, a layout for all machines, and an archive for each.
func (p *packing) makeImage(machines []string) error {
	authorities, err := roots()
	if err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	labels := annotations(p.bare, p.revision, p.at)
	all := &image{seen: map[string]bool{}}
	var manifests []descriptor
	for _, machine := range machines {
		programs := map[string][]byte{}
		for name := range commands {
			if programs[name], err = os.ReadFile(filepath.Join(p.folder(target{"linux", machine}), name)); err != nil {
				return err
			}
		}
		unpacked, err := tarOf(rootFiles(programs, authorities, license), p.at)
		if err != nil {
			return err
		}
		layer, err := packed(unpacked, gzip.DefaultCompression)
		if err != nil {
			return err
		}
		d, _, err := all.addMachine(machine, digest(unpacked), layer, labels, p.at)
		if err != nil {
			return err
		}
		manifests = append(manifests, d)
		single := &image{seen: map[string]bool{}}
		d, m, err := single.addMachine(machine, digest(unpacked), layer, labels, p.at)
		if err != nil {
			return err
		}
		layout, err := single.layout(p.bare, m, d)
		if err != nil {
			return err
		}
		archive, err := tarOf(layout, p.at)
		if err != nil {
			return err
		}
		if err := p.write("conclave-"+p.bare+"-image-linux-"+machine+".tar", archive); err != nil {
			return err
		}
	}
	layout, err := all.layout(p.bare, nil, manifests...)
	if err != nil {
		return err
	}
	for _, e := range layout {
		path := filepath.Join(p.out, "image", filepath.FromSlash(e.name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, e.body, 0o644)); err != nil {
			return err
		}
	}
	return nil
}
