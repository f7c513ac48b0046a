package storeurl

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/election"
)

var form = Form{Backend: "store", Schemes: []string{"store", "stores"}, Example: "store://host/place", Credentials: "the environment"}

// settings are what a URL in the tests may contain.
type settings struct {
	name  string
	on    bool
	lease time.Duration
	count int
}

func (s *settings) parameters() Parameters {
	return Parameters{"name": Text(&s.name), "on": Bool(&s.on), "lease": Duration(&s.lease), "count": Count(&s.count, 1)}
}

func parse(text string) (settings, url.Values, error) {
	var s settings
	_, values, err := form.Parse(text)
	if err == nil {
		err = s.parameters().Read(values)
	}
	if err != nil {
		err = form.Refuse(text, err)
	}
	return s, values, err
}

func TestURLIsRead(t *testing.T) {
	got, left, err := parse("stores://host:1/place?name=a%20b&on=true&lease=1m&count=3")
	if want := (settings{"a b", true, time.Minute, 3}); err != nil || got != want || len(left) != 0 {
		t.Errorf("%+v, %v is left, %v", got, left, err)
	}
	if got, _, err := parse("store://host"); err != nil || got != (settings{}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWrongURLIsRefusedWithTheReason(t *testing.T) {
	for text, want := range map[string]string{
		"store://[::1/place":              "not a URL: missing ']' in host",
		"other://host":                    `the scheme is "other"`,
		"host":                            `the scheme is ""`,
		"store://user:secret@host/place":  "credentials are not taken from a URL, but from the environment",
		"store://host?nmae=a":             `unknown parameter "nmae"; there are count, lease, name, on`,
		"store://host?name=":              "parameter name has 1 values, or an empty one",
		"store://host?name=a&name=b":      "parameter name has 2 values",
		"store://host?on=yes":             `parameter on: "yes" is neither true nor false`,
		"store://host?on=1":               `parameter on: "1" is neither`,
		"store://host?lease=15":           `parameter lease: "15" is no duration above zero, such as 15s`,
		"store://host?lease=-1s":          "no duration above zero",
		"store://host?lease=1ns":          "parameter lease: 1ns is less than a millisecond",
		"store://host?count=0":            `parameter count: "0" is no number from 1 on`,
		"store://host?count=many":         "no number from 1 on",
		"store://host?name=%zz":           "invalid URL escape",
		"store://user:secret@ho st/place": "not a URL",
	} {
		_, _, err := parse(text)
		if err == nil {
			t.Errorf("%s is taken", text)
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, "store: URL ") || !strings.Contains(got, want) ||
			!strings.HasSuffix(got, "; write for example store://host/place") || strings.Contains(got, "secret") {
			t.Errorf("%s: %v", text, err)
		}
		if !errors.Is(err, election.ErrPermanent) {
			t.Errorf("%s: %v is tried again", text, err)
		}
	}
}

// Parameters that a backend does not know are left to its library.
func TestTakeLeavesTheOthers(t *testing.T) {
	var s settings
	values := url.Values{"name": {"a"}, "sslmode": {"require"}}
	if err := s.parameters().Take(values); err != nil || s.name != "a" || values.Encode() != "sslmode=require" {
		t.Errorf("%+v, %v is left, %v", s, values, err)
	}
}
