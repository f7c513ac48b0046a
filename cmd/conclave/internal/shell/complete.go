package shell

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// Bounds of a completion.
const (
	completeWithin   = 800 * time.Millisecond
	completeChildren = 10_000 // a directory with more is not asked for
	completionsMax   = 500
)

// Complete returns how a line may go on: what may be written after it, each to the end of an
// argument, and from where on the argument is that is completed. Znodes are asked for, of a
// directory that has not too many, and for no longer than a person waits.
func (s *Shell) Complete(line string) (endings []string, start int) {
	text, quote, start := unfinished(line)
	before := Split(line[:start])
	if len(before) == 0 {
		return s.endings(s.names(s.block != nil), text, quote, " "), start
	}
	c := s.find(before[0])
	if c == nil {
		return nil, start
	}
	if strings.HasPrefix(text, "-") && quote == 0 {
		var all []string
		for _, o := range c.options {
			all = append(all, "-"+o.name)
		}
		return s.endings(all, text, 0, " "), start
	}
	at := 0 // the number of the argument
	for i := 1; i < len(before); i++ {
		if o := c.find(strings.TrimPrefix(before[i], "-")); o != nil && before[i][0] == '-' {
			if o.value != "" {
				i++
			}
			continue
		}
		if before[i] != "" && before[i][0] == '-' {
			continue
		}
		at++
	}
	switch {
	case c.name == "help" && at == 0:
		return s.endings(s.names(false), text, quote, " "), start
	case c.name == "printwatches" && at == 0:
		return s.endings([]string{"off", "on"}, text, quote, " "), start
	case at < c.paths:
		return s.endings(s.under(text), text, quote, ""), start
	}
	return nil, start
}

// under are the paths that begin as a text does, one level below its last slash, in the form
// of the text.
func (s *Shell) under(text string) []string {
	last := strings.LastIndexByte(text, '/')
	written, parent := "", s.dir
	if last >= 0 {
		written = text[:last+1]
		parent = s.path(strings.TrimRight(text[:last], "/"))
		if parent == "" || text[0] == '/' && last == 0 {
			parent = zk.RootPath
		}
	}
	conn, err := s.session()
	if err != nil || zk.ValidatePath(parent) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.life, completeWithin)
	defer cancel()
	stat, found, err := conn.Exists(ctx, parent)
	if err != nil || !found || stat.NumChildren > completeChildren {
		return nil
	}
	names, _, err := conn.Children(ctx, parent)
	if err != nil {
		return nil
	}
	for i, one := range names {
		names[i] = written + one
	}
	return names
}

// endings are the ends of all that begins as a text does, with the quote that it has begun
// with. What has blanks needs a quote, and what is not Safe is not offered.
func (s *Shell) endings(all []string, text string, quote byte, after string) []string {
	var found []string
	for _, one := range all {
		if !strings.HasPrefix(one, text) || one != cli.Visible(one) {
			continue
		}
		if quote == 0 && strings.ContainsAny(one, blanks) || quote != 0 && strings.IndexByte(one, quote) >= 0 {
			continue
		}
		end := one[len(text):]
		if quote != 0 && after != "" {
			end += string(quote)
		}
		found = append(found, end+after)
	}
	slices.Sort(found)
	return found[:min(len(found), completionsMax)]
}

// names are those that a line may begin with.
func (s *Shell) names(inBlock bool) []string {
	var all []string
	for _, c := range s.commands {
		if !inBlock || c.inMulti {
			all = append(all, c.name)
		}
	}
	return all
}
