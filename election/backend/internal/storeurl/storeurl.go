// Package storeurl reads the URLs that open backends.
//
// It takes a user's text and the form of a backend's URLs, and returns the parts of the
// URL, or an error that says what is wrong and shows a correct URL.
//
// What always holds:
//
//	storeurl-U1  No parameter is ignored: one that is unknown, occurs twice or has no
//	             value is an error.
//	storeurl-U2  No error shows a password (package redact).
//	storeurl-U3  Each error is permanent: only another URL helps.
package storeurl

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/internal/redact"
)

// Form describes the URLs of a backend.
type Form struct {
	Backend     string // begins each error
	Schemes     []string
	Example     string // a correct URL
	Credentials string // where credentials come from, if they cannot be in the URL
}

// Refuse returns the error for a URL.
func (f Form) Refuse(text string, err error) error {
	var syntax *url.Error
	if errors.As(err, &syntax) { // its text quotes the URL
		err = fmt.Errorf("not a URL: %w", syntax.Err)
	}
	return election.Permanent(fmt.Errorf("%s: URL %q: %w; write for example %s", f.Backend, redact.URL(text), err, f.Example))
}

// Parse parses a URL. It returns the parameters without reading them.
func (f Form) Parse(text string) (*url.URL, url.Values, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, nil, err
	case !slices.Contains(f.Schemes, u.Scheme):
		return nil, nil, fmt.Errorf("the scheme is %q", u.Scheme)
	case u.User != nil && f.Credentials != "":
		return nil, nil, f.HasCredentials()
	}
	values, err := url.ParseQuery(u.RawQuery)
	return u, values, err
}

// HasCredentials is the error for a URL with credentials that does not take any.
func (f Form) HasCredentials() error {
	return fmt.Errorf("credentials are not taken from a URL, but from %s", f.Credentials)
}

// Parameters maps each known parameter to the function that reads its value.
type Parameters map[string]func(value string) error

// Read reads all values; an unknown one is an error (storeurl-U1).
func (p Parameters) Read(values url.Values) error {
	if err := p.Take(values); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		return fmt.Errorf("unknown parameter %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(p)), ", "))
	}
	return nil
}

// Take reads the known values and removes them; the remaining ones are for a library.
func (p Parameters) Take(values url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		read, known := p[name]
		if !known {
			continue
		}
		if given := values[name]; len(given) != 1 || given[0] == "" {
			return fmt.Errorf("parameter %s has %d values, or an empty one", name, len(given))
		}
		if err := read(values[name][0]); err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
		delete(values, name)
	}
	return nil
}

// Text reads a value unchanged.
func Text(to *string) func(string) error {
	return func(value string) error {
		*to = value
		return nil
	}
}

// Bool reads true or false.
func Bool(to *bool) func(string) error {
	return func(value string) error {
		if *to = value == "true"; !*to && value != "false" {
			return fmt.Errorf("%q is neither true nor false", value)
		}
		return nil
	}
}

// Duration reads a time of at least a millisecond: with shorter pauses, a candidate would only poll.
func Duration(to *time.Duration) func(string) error {
	return func(value string) (err error) {
		if *to, err = time.ParseDuration(value); err != nil || *to <= 0 {
			return fmt.Errorf("%q is no duration above zero, such as 15s", value)
		}
		if *to < time.Millisecond {
			return fmt.Errorf("%v is less than a millisecond", *to)
		}
		return nil
	}
}

// Count reads a number of at least min.
func Count(to *int, min int) func(string) error {
	return func(value string) (err error) {
		if *to, err = strconv.Atoi(value); err != nil || *to < min {
			return fmt.Errorf("%q is no number from %d on", value, min)
		}
		return nil
	}
}
