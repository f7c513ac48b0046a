package dynamodb

import (
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election/backend/internal/storetest"
)

func TestURLSaysWhereTheElectionsAre(t *testing.T) {
	got, err := parseURL("dynamodb://Conclave_elections.1?region=eu-central-1&endpoint=http://127.0.0.1:8000" +
		"&key=id&poll=2s&create=true")
	if err != nil {
		t.Fatal(err)
	}
	want := Options{Table: "Conclave_elections.1", Key: "id", Poll: 2 * time.Second}
	if got.options != want || got.endpoint != "http://127.0.0.1:8000" || !got.create || len(got.load) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestErrorsOfURLsShowNoPassword(t *testing.T) {
	storetest.Opener(Open).HidesPasswords(t, "dynamodb", URLExample)
}

func TestBadURLShowsAGoodOne(t *testing.T) {
	for _, text := range []string{
		"", "table", "dynamodb://", "dynamodb:///t", "redis://table", "dynamodb://localhost:8000", "dynamodb://t/x",
		"dynamodb://me:secret@t", "dynamodb://t?create=perhaps", "dynamodb://t?poll=2", "dynamodb://t?poll=-2s",
		"dynamodb://t?regoin=x", "dynamodb://t?key=version", "%zz",
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

func TestURLWithoutARegionIsRefusedAtOnce(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if _, _, err := Open(t.Context(), "dynamodb://t"); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("error %v", err)
	}
}
