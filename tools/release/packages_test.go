package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

var someday = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestArchivesHaveTheSameBytesTwice(t *testing.T) {
	files := []entry{{name: "data/", mode: 0o700, own: user}, {name: "data/a", mode: 0o644, body: []byte("text")}}
	var made [2][]byte
	for i := range made {
		archive, err := tarOf(files, someday)
		if err != nil {
			t.Fatal(err)
		}
		if made[i], err = packed(archive, gzip.BestCompression); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("two archives of the same files differ")
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(made[0]))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(unpacked)
	dir, err := r.Next()
	if err != nil || dir.Typeflag != tar.TypeDir || dir.Uid != user || dir.Mode != 0o700 || !dir.ModTime.Equal(someday) {
		t.Errorf("got %+v, %v", dir, err)
	}
	file, err := r.Next()
	if err != nil || file.Uid != 0 || file.Size != 4 {
		t.Errorf("got %+v, %v", file, err)
	}
	if body, err := io.ReadAll(r); err != nil || string(body) != "text" {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestFormulaNamesTheArchivesWithTheirSums(t *testing.T) {
	sums := map[string]string{}
	for _, one := range targets {
		sums[archiveName("0.2.0", one)] = "sum of " + one.system + " " + one.machine
	}
	text, err := formula("0.2.0", sums)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range targets {
		if want := one.system != "windows"; strings.Contains(text, "sha256 \"sum of "+one.system+" "+one.machine+"\"") != want ||
			strings.Contains(text, "/v0.2.0/conclave-0.2.0-"+one.system+"-"+one.machine+".tar.gz\"") != want {
			t.Errorf("%v: in the formula is not %v:\n%s", one, want, text)
		}
	}
	if opened, ended := strings.Count(text, " do\n"), strings.Count(text, "end\n"); opened+2 != ended {
		t.Errorf("%d blocks, a class and a function, %d ends", opened, ended)
	}
	delete(sums, "conclave-0.2.0-darwin-arm64.tar.gz")
	if _, err := formula("0.2.0", sums); err == nil {
		t.Error("a formula without a sum")
	}
}

func TestAuthoritiesAreThoseWithoutConditionsAndWithTheirDigests(t *testing.T) {
	all := []byte("firstsecondthird")
	line := func(text string, at int, more string) string {
		sum := sha256.Sum256([]byte(text))
		return fmt.Sprintf("\t{\n\t\tsha256Hash:   %q,\n\t\tcertStartOff: %d,\n\t\tcertLength:   %d,\n%s\t},\n", hex.EncodeToString(sum[:]), at, len(text), more)
	}
	list := line("first", 0, "") + line("second", 5, "\t\tdistrustAfter: \"2025-01-01T00:00:00Z\",\n") + line("third", 11, "")
	text, err := rootsOf(list, all)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		got, text = append(got, string(block.Bytes)), rest
	}
	if strings.Join(got, " ") != "first third" {
		t.Errorf("got %q", got)
	}
	for _, bad := range []string{"", line("other", 0, ""), line("third", 12, "")} {
		if _, err := rootsOf(bad, all); err == nil {
			t.Errorf("taken:\n%s", bad)
		}
	}
}

func TestImageNamesItsBlobsByTheirDigests(t *testing.T) {
	i := &image{seen: map[string]bool{}}
	var manifests []descriptor
	for _, machine := range []string{"amd64", "arm64"} {
		d, m, err := i.addMachine(machine, "sha256:unpacked", []byte("layer of "+machine), annotations("0.2.0", "abc", someday), someday)
		if err != nil {
			t.Fatal(err)
		}
		if m.Layers[0].Size != len("layer of "+machine) || d.Platform.Architecture != machine {
			t.Errorf("got %+v, %+v", d, m)
		}
		manifests = append(manifests, d)
	}
	files, err := i.layout("0.2.0", nil, manifests...)
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	for _, e := range files {
		if name, is := strings.CutPrefix(e.name, "blobs/sha256/"); is {
			if blobs["sha256:"+name] = e.body; digest(e.body) != "sha256:"+name {
				t.Errorf("%s has another digest", e.name)
			}
		}
	}
	follow := func(d descriptor) (m manifest) {
		t.Helper()
		if err := json.Unmarshal(blobs[d.Digest], &m); err != nil || len(blobs[d.Digest]) != d.Size {
			t.Fatalf("%+v: %v", d, err)
		}
		return m
	}
	var index manifest
	if err := json.Unmarshal(files[1].body, &index); err != nil || files[1].name != "index.json" || len(index.Manifests) != 1 {
		t.Fatalf("%+v, %v", index, err)
	}
	machines := follow(index.Manifests[0]).Manifests
	if len(machines) != 2 || index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "0.2.0" {
		t.Fatalf("%+v", machines)
	}
	for _, d := range machines {
		m := follow(d)
		var c imageConfig
		if err := json.Unmarshal(blobs[m.Config.Digest], &c); err != nil {
			t.Fatal(err)
		}
		if c.Architecture != d.Platform.Architecture || c.Config.User != "65532:65532" || string(blobs[m.Layers[0].Digest]) != "layer of "+c.Architecture {
			t.Errorf("%+v", c)
		}
	}
}

func TestImageHasNoShellAndOneFolderForItsUser(t *testing.T) {
	for _, e := range rootFiles(map[string][]byte{"conclave": {1}, "conclave-stores": {2}}, nil, nil) {
		if (e.own == user) != (e.name == "data/") || e.mode&0o6000 != 0 || e.mode&0o022 != 0 && e.name != "tmp/" {
			t.Errorf("%s: mode %o of user %d", e.name, e.mode, e.own)
		}
		if strings.HasPrefix(e.name, "usr/bin/") && e.body != nil && !strings.HasPrefix(e.name, "usr/bin/conclave") {
			t.Errorf("%s is no program of ours", e.name)
		}
	}
}
