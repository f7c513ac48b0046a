package shell

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/awaittest"
	"github.com/conclave-project/conclave/internal/inprocess"
	"github.com/conclave-project/conclave/internal/server"
	"github.com/conclave-project/conclave/internal/tracetest"
)

// serve starts servers for shells.
func serve(t *testing.T, servers int) *inprocess.Ensemble {
	t.Helper()
	base := server.Default()
	base.TickTime, base.SilenceTime, base.PreallocBytes = 200*time.Millisecond, 20*time.Second, 64<<10
	base.ReconfigEnabled, base.ExtendedTypes, base.EnforceQuota = true, true, true
	e, err := inprocess.Start(inprocess.Options{Servers: servers, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(awaittest.Within(t), func() bool {
		for id := 1; id <= e.Size(); id++ {
			if !e.Server(id).Serves() {
				return false
			}
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return e
}

// connected returns a shell with a session.
func connected(t *testing.T, servers string, out io.Writer, change ...func(*Options)) *Shell {
	t.Helper()
	o := Options{Out: out, Err: out, Servers: servers, Timeout: 20 * time.Second, Version: "conclave 1.2.3",
		Open: func(other string) (*client.Client, error) {
			if other == "" {
				other = servers
			}
			return client.New(other, client.Options{})
		}}
	for _, f := range change {
		f(&o)
	}
	s := New(o)
	t.Cleanup(s.Close)
	if err := s.Connect(""); err != nil {
		t.Fatal(err)
	}
	if err := s.Await(awaittest.Within(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

// Parts of the output that differ at each run.
var varying = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(cZxid|mZxid|pZxid) = 0x\w+`), "$1 = ZXID"},
	{regexp.MustCompile(`(ctime|mtime) = \w.*`), "$1 = TIME"},
	{regexp.MustCompile(`zxid: \d+`), "zxid: N"},
	{regexp.MustCompile(`ephemeralOwner = 0x[1-9a-f]\w+`), "ephemeralOwner = SESSION"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "SERVER"},
	{regexp.MustCompile(`version=\w+`), "version=N"},
	{regexp.MustCompile(`\b1[0-9a-f]{8} SERVER`), "N SERVER"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`), "CLOCK"},
}

// marked is a stream whose lines begin with a mark.
type marked struct {
	to   *strings.Builder
	mark string
}

func (m marked) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		m.to.WriteString(m.mark + strings.TrimSuffix(line, "\n") + "\n")
	}
	return len(p), nil
}

// TestStories runs sessions: "> " is in front of a line to run, "tab> " in front of a line
// to complete; output lines begin with "! " for standard error and "= " for an exit code
// other than 0.
func TestStories(t *testing.T) {
	t.Setenv("TZ", "UTC")
	tracetest.Run(t, func(t *testing.T, story string) string {
		e := serve(t, 1)
		var out strings.Builder
		s := connected(t, e.Addr(1), marked{&out, ""}, func(o *Options) {
			o.Err, o.Person = marked{&out, "! "}, strings.Contains(story, "\n# For a person.\n")
		})
		for line := range strings.Lines(story) {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case strings.HasPrefix(line, "# "), line == "#":
				out.WriteString(line + "\n")
			case strings.HasPrefix(line, "> "):
				out.WriteString(line + "\n")
				if code := s.Run(t.Context(), strings.ReplaceAll(line[2:], `\e`, "\x1b")); code != 0 {
					fmt.Fprintf(&out, "= %d\n", code)
				}
			case strings.HasPrefix(line, "tab> "):
				out.WriteString(line + "\n")
				endings, start := s.Complete(line[5:])
				fmt.Fprintf(&out, "%d %q\n", start, endings)
			}
		}
		text := out.String()
		for _, v := range varying {
			text = v.what.ReplaceAllString(text, v.by)
		}
		return text
	})
}
