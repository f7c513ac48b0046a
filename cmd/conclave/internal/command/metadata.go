package command

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/election"
)

// described is the metadata of a candidate as JSON: as text if the bytes are UTF-8,
// otherwise in base64, and empty if there is none.
type described struct {
	Metadata       string `json:"metadata,omitempty"`
	MetadataBase64 []byte `json:"metadataBase64,omitempty"`
}

func describe(metadata []byte) described {
	if utf8.Valid(metadata) {
		return described{Metadata: string(metadata)}
	}
	return described{MetadataBase64: metadata}
}

// shownMax is how many characters of metadata are printed for people.
const shownMax = 60

// text is the metadata for people, on one line.
func (d described) text() string {
	if len(d.MetadataBase64) > 0 {
		return shorten("base64:" + base64.StdEncoding.EncodeToString(d.MetadataBase64))
	}
	return shorten(cli.Visible(d.Metadata))
}

func shorten(text string) string {
	if all := []rune(text); len(all) > shownMax {
		return string(all[:shownMax]) + "..."
	}
	return text
}

// waiter is a candidate that waits, as JSON.
type waiter struct {
	ID string `json:"id"`
	described
}

func newWaiters(all []election.Waiter) []waiter {
	waiters := make([]waiter, len(all))
	for i, one := range all {
		waiters[i] = waiter{one.ID, describe(one.Metadata)}
	}
	return waiters
}

// named describes a candidate for people, with its metadata after the id.
func named(id string, metadata []byte) string {
	if text := describe(metadata).text(); text != "" {
		return cli.Visible(id) + " (" + text + ")"
	}
	return cli.Visible(id)
}
