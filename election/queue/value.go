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

// DecodeHistory reads a list of leaderships. A damaged list is not an error; the history
// then starts again, because it is only for people.
func DecodeHistory(value []byte, version uint64) History {
	h := History{Version: version}
	_ = json.Unmarshal(value, &h.Tenures)
	return h
}

// DecodeRequest reads a request. It returns nil if there is none or it is damaged.
func DecodeRequest(value []byte) *election.Request {
	var request election.Request
	if json.Unmarshal(value, &request) != nil {
		return nil
	}
	return &request
}
