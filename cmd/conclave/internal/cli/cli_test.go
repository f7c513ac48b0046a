package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/zk"
)

func TestEveryErrorHasAHintAndACode(t *testing.T) {
	for _, c := range []struct {
		err  error
		exit int
		hint string
	}{
		{nil, ExitOK, ""},
		{fmt.Errorf("get /a: %w", zk.ErrNoNode), ExitNotFound, "conclave ls"},
		{&client.Error{Op: zk.OpSetData, Path: "/a", Err: zk.ErrConnectionLoss, Outcome: client.Unknown}, ExitNoServer, "may or may not have happened"},
		{&client.Error{Op: zk.OpGetData, Path: "/a", Err: zk.ErrConnectionLoss, Outcome: client.NotApplied}, ExitNoServer, "no server answers"},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), ExitNoServer, "no server answers"},
		{Usage("do that", "not %s", "this"), ExitUsage, "do that"},
		{errors.New("something else"), ExitFailed, "--help"},
		{errors.Join(errors.New("one"), errors.New("two")), ExitFailed, "--help"},
	} {
		var out bytes.Buffer
		if exit := Report(&out, c.err); exit != c.exit {
			t.Errorf("%v: exit code %d, want %d", c.err, exit, c.exit)
		}
		for line := range strings.Lines(out.String()) {
			if !strings.HasPrefix(line, "conclave: ") && !strings.HasPrefix(line, "hint: ") {
				t.Errorf("%v: line %q", c.err, line)
			}
		}
		if !strings.Contains(out.String(), c.hint) || c.err != nil && strings.Count(out.String(), "hint: ") != 1 {
			t.Errorf("%v: %q has no hint %q", c.err, out.String(), c.hint)
		}
	}
}

func TestStoresAreParsed(t *testing.T) {
	for text, want := range map[string]Store{
		"zk://a:1,b:2/app": {Scheme: "zookeeper", URL: "zookeeper://a:1,b:2/app", Servers: "a:1,b:2/app"},
		"zookeeper://a:1":  {Scheme: "zookeeper", URL: "zookeeper://a:1", Servers: "a:1"},
		"zk+tls://a:1/x":   {Scheme: "zookeeper", URL: "zookeeper+tls://a:1/x", Servers: "a:1/x", TLS: true},
		"a:1":              {Scheme: "zookeeper", URL: "zookeeper://a:1", Servers: "a:1"},
		"file:///var/x%20": {Scheme: "file", URL: "file:///var/x%20", Dir: "/var/x "},
		"file:///x%3Fy%23": {Scheme: "file", URL: "file:///x%3Fy%23", Dir: "/x?y#"},
		"etcd://a:1":       {Scheme: "etcd", URL: "etcd://a:1"},
	} {
		if got, err := ParseStore(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"zk://", "zk:///a", "", "file://host/dir", "file://", "/dir", "zk+tls:///a",
		"file:///dir?x=1", "file:///dir?", "file:///dir#1", "file:///dir#"} {
		if got, err := ParseStore(text); err == nil {
			t.Errorf("%q was taken for %+v", text, got)
		}
	}
}

func TestErrorsOfStoresShowNoPassword(t *testing.T) {
	for _, text := range []string{"zk://me:secret@a:1/x", "zk+tls://secret@a", "me:secret@a:1", "zk:///a?password=secret",
		"file://me:secret@host/dir", "dir?token=secret", "host=b password=secret", "host=10.0.0.1 user=me password=secret",
		"host=/run/b password='=secret'"} {
		got, err := ParseStore(text)
		if err == nil || strings.Contains(err.Error(), "secret@") || strings.Contains(err.Error(), "=secret") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if _, err := Servers("etcd://me:secret@a:1"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestServersComeFromTheFlagThenTheEnvironmentThenThisMachine(t *testing.T) {
	t.Setenv(StoreVariable, "")
	if got, _ := Servers(""); got.Servers != DefaultServers {
		t.Error(got)
	}
	t.Setenv(StoreVariable, "zk://a:1/x")
	if got, _ := Servers(""); got.Servers != "a:1/x" {
		t.Error(got)
	}
	if got, _ := Servers("b:2"); got.Servers != "b:2" {
		t.Error(got)
	}
	for _, store := range []string{"file:///dir", "etcd://a:1"} {
		t.Setenv(StoreVariable, store)
		if got, err := Servers(""); err == nil {
			t.Errorf("%s was taken for the server %v", store, got)
		}
	}
	if got := strings.Join(ServerList("a, [::1],b:3/x"), " "); got != "a:2181 [::1]:2181 b:3" {
		t.Error(got)
	}
}

func TestACLsAreParsed(t *testing.T) {
	got, err := ParseACL("world:anyone:r,digest:bob:h:cdrwa,auth::w")
	want := []zk.ACL{
		{Perms: zk.PermRead, Identity: zk.Identity{Scheme: "world", ID: "anyone"}},
		{Perms: zk.PermAll, Identity: zk.Identity{Scheme: "digest", ID: "bob:h"}},
		{Perms: zk.PermWrite, Identity: zk.Identity{Scheme: "auth"}},
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, %v", got, err)
	}
	got, err = ParseACL("x509:CN=a,O=b:rw,ip:10.0.0.1:c")
	if err != nil || len(got) != 2 || got[0].ID != "CN=a,O=b" || got[1].Perms != zk.PermCreate {
		t.Errorf("an id with commas: %v, %v", got, err)
	}
	for _, text := range []string{"", "world", "world:anyone", "world:anyone:x", "x509:CN=a,O=b", "world:anyone:r,"} {
		if _, err := ParseACL(text); !errors.Is(err, zk.ErrInvalidACL) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTablesHaveColumnsAndNoControlCharacters(t *testing.T) {
	var out bytes.Buffer
	if err := Table(&out, []string{"A", "NAME"}, [][]string{{"1", "x\x1b[2Jy\tz"}, {"22", "b"}}); err != nil {
		t.Fatal(err)
	}
	if want := "A   NAME\n1   x\uFFFD[2Jy\uFFFDz\n22  b\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestWhatOthersWroteDoesNotCommandTheTerminal(t *testing.T) {
	const written = "one\n\ttwo\r\x1b]0;title\x07 \u202eover \u2066back\xff\u009bm \u00e9\u4f60"
	const text = "one\n\ttwo\uFFFD\uFFFD]0;title\uFFFD \uFFFDover \uFFFDback\uFFFD\uFFFDm \u00e9\u4f60"
	if got := VisibleText(written); got != text {
		t.Errorf("a text: %q, want %q", got, text)
	}
	if got, want := Visible(written), strings.NewReplacer("\n", "\uFFFD", "\t", "\uFFFD").Replace(text); got != want {
		t.Errorf("a name: %q, want %q", got, want)
	}
}

func TestDataIsTextOrBase64(t *testing.T) {
	var out bytes.Buffer
	p := Printer{Out: &out, JSON: true}
	for _, data := range [][]byte{nil, {}, []byte("a<b"), {0xff}} {
		if err := p.Line(NewData(data), ""); err != nil {
			t.Fatal(err)
		}
	}
	want := "{}\n{\"data\":\"\"}\n{\"data\":\"a<b\"}\n{\"dataBase64\":\"/w==\"}\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
