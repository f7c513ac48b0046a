package gcs

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
)

func TestURLSaysWhereTheElectionsAre(t *testing.T) {
	got, err := parseURL("gs://my-bucket/a/b?endpoint=http://127.0.0.1:9000/&anonymous=true&poll=2s")
	if err != nil {
		t.Fatal(err)
	}
	want := Options{Bucket: "my-bucket", Prefix: "a/b", Endpoint: "http://127.0.0.1:9000", Poll: 2 * time.Second}
	if got.options != want || !got.anonymous {
		t.Errorf("got %+v", got)
	}
	if got, err := parseURL("gs://b"); err != nil || got.options.Prefix != PrefixDefault || got.options.Endpoint != EndpointDefault || got.anonymous {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	storetest.Opener(Open).HidesPasswords(t, "gs", URLExample)
}

func TestBadURLShowsAGoodOne(t *testing.T) {
	for _, text := range []string{
		"", "bucket", "gs://", "gs:///x", "s3://bucket", "gs://127.0.0.1:9000/bucket", "gs://b/x/", "gs://b//x",
		"gs://key:secret@b", "gs://b?anonymous=perhaps", "gs://b?poll=2", "gs://b?poll=-2s", "gs://b?endpiont=x", "%zz",
		"gs://b?endpoint=127.0.0.1:9000", "gs://b?endpoint=https://x/storage/v1", "gs://b?endpoint=ftp://x", "gs://b?endpoint=https://a:b@x",
		"gs://b/" + strings.Repeat("x", prefixBytesMax+1),
	} {
		_, _, err := Open(t.Context(), text)
		if err == nil || !strings.Contains(err.Error(), URLExample) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := parseURL(URLExample); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func TestCredentialsAreNotSentWithoutTLS(t *testing.T) {
	if _, err := parseURL("gs://b?endpoint=http://127.0.0.1:9000"); err == nil || !strings.Contains(err.Error(), "anonymous=true") {
		t.Error(err)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for _, o := range []Options{{}, {Bucket: "a/b"}, {Bucket: "b", Poll: -1}, {Bucket: "b", Endpoint: "storage.googleapis.com"}} {
		if _, err := New(http.DefaultClient, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	if _, err := New(nil, Options{Bucket: "b"}); err == nil {
		t.Error("no client is taken")
	}
}
