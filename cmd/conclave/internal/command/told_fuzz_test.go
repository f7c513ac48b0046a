package command

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

// FuzzWhatServersTell reads arbitrary text as each of the answers that a server gives
// to operators. No text may end the command, or make it invent a session.
func FuzzWhatServersTell(f *testing.F) {
	for _, name := range []string{"dump", "cons", "wchp", "wchs"} {
		text, err := os.ReadFile("../../../../internal/admin/testdata/" + name + ".txt")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"expiry_time_to_session_ids":{"1":[2,"0x3"]},"session_id_to_ephemeral_paths":{"2":["/a"]},` +
		`"connections":[{"remote_socket_address":"/127.0.0.1:1","session_id":2,"established":1}],"secure_connections":[],` +
		`"path_to_session_ids":{"/a":[2]},"num_connections":1,"num_paths":1,"num_total_watches":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		d := dumped{sessions: map[zk.SessionID]int64{}, ephemerals: map[zk.SessionID][]string{}}
		c, sum, watches := connected{}, watchSum{}, 0
		put := func(string, zk.SessionID) { watches++ }
		d.text(text)
		c.text("server", text)
		sum.text(text)
		watchesOf(text, put)
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &fields) == nil {
			_, _, _ = d.json(fields), c.json("server", fields), sum.json(fields)
			_, _ = watchFields(fields, put)
		}
		lines := strings.Count(text, "\n") + strings.Count(text, ",") + strings.Count(text, "[") + strings.Count(text, "{") + 2
		if n := len(d.held(c)); n > 2*lines || watches > lines {
			t.Errorf("%d sessions and %d watches of %d lines", n, watches, lines)
		}
	})
}
