package command

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
)

// version is that of this program. srvr shows which ZooKeeper version it corresponds to.
const version = "0.1.0"

// buildInfo is what the Go tool knows about this binary.
type buildInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Built    string `json:"committed,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() buildInfo {
	b := buildInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Built = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// built returns the date that srvr shows: that of the commit, if known.
func built() string {
	at, err := time.Parse(time.RFC3339, readBuild().Built)
	if err != nil {
		at = time.Unix(0, 0)
	}
	return at.UTC().Format("2006-01-02 15:04 MST")
}

// versionLine is what the version command and the --version flag print.
func versionLine() string {
	b := readBuild()
	return fmt.Sprintf("conclave %s %s (%s, %s)\n", b.Version, shortRevision(b), b.Go, b.Platform)
}

func newVersion() *cobra.Command {
	var output outputFlag
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Example: `  conclave version
  conclave version -o json`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			p, err := output.printer(c)
			if err != nil {
				return err
			}
			b := readBuild()
			return p.Answer(b, func(w io.Writer) error {
				_, err := io.WriteString(w, versionLine())
				return err
			})
		},
	}
	output.add(c)
	return c
}

func shortRevision(b buildInfo) string {
	switch {
	case b.Revision == "":
		return "from source"
	case b.Modified:
		return b.Revision[:min(12, len(b.Revision))] + "+changes"
	}
	return b.Revision[:min(12, len(b.Revision))]
}
