package auth

import (
	"encoding/hex"
	"testing"
)

// What Java 17 makes of bytes with new String(bytes, UTF_8).getBytes(UTF_8).
func TestMalformedTextIsReplacedAsJavaDoes(t *testing.T) {
	for in, want := range map[string]string{
		"ffe29090":   "efbfbde29090",
		"bf82c1f48f": "efbfbdefbfbdefbfbdefbfbd",
		"41df":       "41efbfbd",
		"809fc0c1":   "efbfbdefbfbdefbfbdefbfbd",
		"e2f4809090": "efbfbdf4809090",
		"c1":         "efbfbd",
		"7ff1df":     "7fefbfbdefbfbd",
		"e0":         "efbfbd",
		"f080e0e0e1": "efbfbdefbfbdefbfbdefbfbdefbfbd",
		"edf0":       "efbfbdefbfbd",
		"8fc2":       "efbfbdefbfbd",
		"f5":         "efbfbd",
		"829f":       "efbfbdefbfbd",
		"ef7fbfe0a0": "efbfbd7fefbfbdefbfbd",
		"dfe28f":     "efbfbdefbfbd",
		"c1f5f1":     "efbfbdefbfbdefbfbd",
		"bfffc0":     "efbfbdefbfbdefbfbd",
		"c1c0f1ff82": "efbfbdefbfbdefbfbdefbfbdefbfbd",
		"9fa0e1":     "efbfbdefbfbdefbfbd",
		"41eff5":     "41efbfbdefbfbd",
		"c1ac8ff1":   "efbfbdefbfbdefbfbdefbfbd",
		"f4bfc2e0e0": "efbfbdefbfbdefbfbdefbfbdefbfbd",
		"c0f47f":     "efbfbdefbfbd7f",
		"a0c09fefe1": "efbfbdefbfbdefbfbdefbfbdefbfbd",
	} {
		text, err := hex.DecodeString(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString([]byte(JavaText(string(text)))); got != want {
			t.Errorf("%s: %s, Java %s", in, got, want)
		}
	}
	// A password in Latin-1. The expected identity comes from getACL on one of Apache's servers.
	if got := Digest("bob:\xe9t\xe9"); got != Digest("bob:\ufffdt\ufffd") {
		t.Errorf("bob is %q", got)
	}
}
