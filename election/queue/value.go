package queue

import (
	"encoding/json"

	"github.com/conclave-project/conclave/election"
)

// Encode writes a plain value of texts, numbers and times as JSON, which cannot fail.
func Encode(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return text
}

// DecodeHistory reads a list of leaderships. A damaged list is not an error, and the history
// begins again: it is for people only.
func DecodeHistory(value []byte, version uint64) History {
	h := History{Version: version}
	_ = json.Unmarshal(value, &h.Tenures)
	return h
}

// DecodeRequest reads a request, nil for none or a damaged one.
func DecodeRequest(value []byte) *election.Request {
	var request election.Request
	if json.Unmarshal(value, &request) != nil {
		return nil
	}
	return &request
}
