package electiontest

import (
	"testing"
	"time"
)

func TestJudgeSeesOverlapsAndTokensThatDoNotGrow(t *testing.T) {
	const ms = 1_000_000
	for _, c := range []struct {
		name                string
		spans               []span
		tokensBack, overlap int
	}{
		{"one after the other", []span{{"a", 1, 0, 10 * ms}, {"b", 2, 10 * ms, 20 * ms}}, 0, 0},
		{"filed out of order", []span{{"b", 2, 10 * ms, 20 * ms}, {"a", 1, 0, 10 * ms}}, 0, 0},
		{"side by side", []span{{"a", 1, 0, 10 * ms}, {"b", 2, 7 * ms, 20 * ms}}, 0, 3},
		{"beside one from long before", []span{{"a", 1, 0, 30 * ms}, {"b", 2, 10 * ms, 11 * ms}, {"c", 3, 15 * ms, 20 * ms}}, 0, 5},
		{"a token again", []span{{"a", 2, 0, 10 * ms}, {"b", 2, 10 * ms, 20 * ms}}, 1, 0},
		{"a token back", []span{{"a", 3, 0, 10 * ms}, {"b", 2, 10 * ms, 20 * ms}}, 1, 0},
	} {
		h := &history{spans: c.spans}
		v := h.judge()
		if v.tokensBack != c.tokensBack || v.overlapMax != time.Duration(c.overlap)*time.Millisecond {
			t.Errorf("%s: %+v", c.name, v)
		}
		if (len(v.wrong) > 0) != (c.tokensBack+c.overlap > 0) {
			t.Errorf("%s: wrong: %q", c.name, v.wrong)
		}
	}
	for overlaps, spans := range map[int][]span{1: {{"a", 1, 0, 10 * ms}, {"b", 2, 5 * ms, 5 * ms}}, 0: {{"a", 1, 0, 0}, {"b", 2, 0, 0}}} {
		if h := (&history{spans: spans}); len(h.judge().wrong) != overlaps {
			t.Errorf("of leaderships in no time: %q", h.judge().wrong)
		}
	}
}
