package s3

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
)

func TestURLSaysWhereTheElectionsAre(t *testing.T) {
	got, err := parseURL("s3://my-bucket/a/b?region=auto&endpoint=http://127.0.0.1:9000&path-style=true&poll=2s")
	if err != nil {
		t.Fatal(err)
	}
	want := Options{Bucket: "my-bucket", Prefix: "a/b", Poll: 2 * time.Second}
	if got.options != want || got.endpoint != "http://127.0.0.1:9000" || !got.pathStyle || len(got.load) != 1 {
		t.Errorf("got %+v", got)
	}
	if got, err := parseURL("s3://b"); err != nil || got.options.Prefix != PrefixDefault || got.pathStyle {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	storetest.Opener(Open).HidesPasswords(t, "s3", URLExample)
}

func TestBadURLShowsAGoodOne(t *testing.T) {
	for _, text := range []string{
		"", "bucket", "s3://", "s3:///x", "http://bucket", "s3://127.0.0.1:9000/bucket", "s3://b/x/", "s3://b//x",
		"s3://key:secret@b", "s3://b?path-style=perhaps", "s3://b?poll=2", "s3://b?poll=-2s", "s3://b?regoin=x", "%zz",
	} {
		_, _, err := Open(t.Context(), text)
		if err == nil || !strings.Contains(err.Error(), URLExample) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := parseURL(URLExample); err != nil {
		t.Errorf("the good one: %v", err)
	}
}
