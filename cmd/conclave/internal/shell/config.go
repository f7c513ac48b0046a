package shell

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/zk"
)

func runConfig(ctx context.Context, s *Shell, in *input) error {
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	var text []byte
	var stat zk.Stat
	if in.has("w") {
		var w *client.Watch
		if text, stat, w, err = conn.GetConfigW(ctx); err == nil {
			s.keep(w, watchKey{zk.ConfigPath, dataWatch})
		}
	} else {
		text, stat, err = conn.GetConfig(ctx)
	}
	if err != nil {
		return explain(err, zk.ConfigPath)
	}
	if in.has("c") {
		s.println(clients(string(text)))
	} else {
		s.println(s.text(text))
	}
	if in.has("s") {
		s.print(statText(stat))
	}
	return nil
}

// clients returns the part of a configuration that clients use: its version and the client
// addresses.
func clients(text string) string {
	config, err := ensemble.Parse(text)
	if err != nil {
		return " " // of a standalone server, which has no configuration
	}
	var all []string
	for i := range config.Members {
		line := config.Members[i].String()
		if _, at, ok := strings.Cut(line, ";"); ok {
			all = append(all, at)
		}
	}
	return strconv.FormatUint(uint64(config.Version), 16) + " " + strings.Join(all, ",")
}

func runReconfig(ctx context.Context, s *Shell, in *input) error {
	if len(in.args) > 0 || len(in.set) == 0 {
		return usage{in.of}
	}
	version, err := in.number("v", 16, -1)
	if err != nil {
		return failure("-v must be followed by a long (configuration version)")
	}
	change := client.Change{Version: version}
	whole, steps := in.has("file") || in.has("members"), in.has("add") || in.has("remove")
	if whole && steps {
		return failure("-file and -members give the whole ensemble, -add and -remove change it: use one or the other")
	}
	if whole == steps {
		return usage{in.of}
	}
	split := func(option string) []string {
		if text := in.set[option]; text != "" {
			return strings.Split(text, ",")
		}
		return nil
	}
	change.Joining, change.Leaving, change.Members = split("add"), split("remove"), split("members")
	if in.has("file") {
		if change.Members, err = serverLines(in.set["file"]); err != nil {
			return err
		}
	}
	conn, ctx, cancel, err := s.within(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	text, stat, err := conn.Reconfig(ctx, change)
	if err != nil {
		return err
	}
	s.printEvents()
	s.println("Committed new configuration:\n" + s.text(text))
	if in.has("s") {
		s.print(statText(stat))
	}
	return nil
}

// serverLines returns the server lines of a dynamic configuration file.
func serverLines(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the new ensemble: %w", err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "server.") || strings.HasPrefix(line, "group.") || strings.HasPrefix(line, "weight.") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("read the new ensemble: %s has no line server.ID=", file)
	}
	return lines, nil
}
