package election

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NameBytesMax is the maximum length of the name of an election in bytes.
const NameBytesMax = 200

// ValidateName returns nil if an election may have this name: 1 to NameBytesMax bytes of UTF-8
// without control characters, in segments that are separated by single slashes and are neither
// "." nor "..". Otherwise the error matches ErrInvalid.
func ValidateName(name string) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("election name %q: %w; use for example \"billing/nightly\"", name, &invalidError{err})
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > NameBytesMax:
		return fmt.Errorf("has %d bytes, at most %d are allowed", len(name), NameBytesMax)
	}
	if err := checkText(name); err != nil {
		return err
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch segment {
		case "":
			return errors.New("has an empty segment")
		case ".", "..":
			return fmt.Errorf("has the segment %q", segment)
		}
	}
	return nil
}

func checkText(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("is not valid UTF-8")
	}
	for _, r := range text {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return fmt.Errorf("has the character %U", r)
		}
	}
	return nil
}
