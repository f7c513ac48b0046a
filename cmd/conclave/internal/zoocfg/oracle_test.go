package zoocfg

import (
	"strings"
	"testing"

	"github.com/conclave-project/conclave/internal/vfs"
)

const twoServers = "server.1=a:2888:3888;2181\nserver.2=b:2888:3888;2182\n"

// The oracle is for two servers with equal weights.
func TestOracleIsForTwoParticipants(t *testing.T) {
	for lines, want := range map[string]string{
		twoServers: "",
		twoServers + "server.3=c:2888:3888:observer\n": "",
		twoServers + "group.1=1:2\nweight.1=1\n":       "without groups and weights",
		twoServers + "server.3=c:2888:3888\n":          "here are 3: leave it out",
	} {
		c, err := member(t, static+"oraclePath=/alone\n"+lines, nil)
		switch {
		case want != "":
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", lines, err, want)
			}
		case err != nil:
			t.Errorf("%s: %v", lines, err)
		case c.Server.Oracle == nil:
			t.Errorf("%s: nobody asks the oracle", lines)
		case len(c.Remarks) > 0 && strings.Contains(strings.Join(c.Remarks, " "), "no failure of a server is survived"):
			t.Errorf("%s: %q", lines, c.Remarks)
		}
	}
	if c, err := member(t, static+twoServers, nil); err != nil || c.Server.Oracle != nil {
		t.Errorf("without the key: %v", err)
	}
}

// As in Apache, only the first character counts.
func TestOracleSaysOneOrNothing(t *testing.T) {
	for content, want := range map[string]bool{"1": true, "1\n": true, "10": true, "0": false, "": false, " 1": false, "true": false} {
		fsys := vfs.NewMem()
		f, err := fsys.Create("/alone")
		if err == nil {
			_, err = f.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := saysAlone(fsys, "/alone"); got != want {
			t.Errorf("%q: %v", content, got)
		}
	}
	if saysAlone(vfs.NewMem(), "/alone") {
		t.Error("a file that is not there says 1")
	}
}
