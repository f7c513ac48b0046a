package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/zk"
)

// Bounds of a completion.
const (
	completeWithin   = 800 * time.Millisecond
	completeChildren = 10_000 // a directory with more children is read in pages of this many
	completionsMax   = 500
	completionsFew   = 40 // how many endings are offered if there are more, so the remark still fits on the screen
)

// few is the remark on a completion that may be incomplete.
const few = "%s has %d children, %d of which were looked at: there may be others that fit"

// Complete returns how a line may continue: the possible endings, each to the end of an
// argument, and where in the line that argument starts. It asks for znodes only for as long
// as a person would wait, and remarks if there may be more endings than it returns.
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
		names, partial := s.under(text)
		endings = s.endings(names, text, quote, "")
		if n := len(endings); n > completionsMax && !partial {
			s.news(faint, fmt.Sprintf("the first %d of %d that fit", completionsFew, n))
			partial = true
		}
		if partial {
			endings = endings[:min(len(endings), completionsFew)]
		}
		if partial && len(endings) > 0 && !slices.Contains(endings, "") {
			endings = append([]string{""}, endings...) // else the common prefix of the others would be inserted
		}
		return endings, start
	}
	return nil, start
}

// under returns the paths that begin with text, one level below its last slash, in the form
// of text (absolute or relative), and whether there may be others.
func (s *Shell) under(text string) (names []string, partial bool) {
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
		return nil, false
	}
	ctx, cancel := context.WithTimeout(s.life, s.completeWithin)
	defer cancel()
	stat, found, err := conn.Exists(ctx, parent)
	if err != nil || !found {
		return nil, false
	}
	if stat.NumChildren > completeChildren {
		names, partial = s.inPages(ctx, conn, parent, text[len(written):], int(stat.NumChildren))
	} else if names, _, err = conn.Children(ctx, parent); err != nil {
		return nil, false
	}
	for i, one := range names {
		names[i] = written + one
	}
	return names, partial
}

// inPages returns children that begin with text, of a directory that has many: no more than
// are shown, and only those that are found in time. Apache's servers do not support pages
// and end the connection of a client that asks for one, so they are asked only once.
func (s *Shell) inPages(ctx context.Context, conn *client.Client, parent, text string, children int) (names []string, partial bool) {
	looked, cursor := 0, []byte(nil)
	for len(names) <= completionsMax && s.unpaged != conn {
		s.probe(true)
		page, err := conn.ChildrenPage(ctx, parent, cursor, completeChildren)
		if errors.Is(err, zk.ErrUnimplemented) {
			s.unpaged = conn // what happens to the connection is not reported
		} else {
			s.probe(false)
		}
		if err != nil {
			break
		}
		looked += len(page.Names)
		for _, one := range page.Names {
			if strings.HasPrefix(one, text) {
				names = append(names, one)
			}
		}
		if cursor = page.Next; cursor == nil {
			return names, false
		}
	}
	s.news(faint, fmt.Sprintf(few, cli.Visible(parent), children, looked))
	return names, true
}

// endings returns the rest of every name that begins with text, closed with the quote with
// which the argument began. Names with blanks need a quote, and names that are not Safe are
// not offered.
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
	return found
}

// names returns the names with which a line may begin.
func (s *Shell) names(inBlock bool) []string {
	var all []string
	for _, c := range s.commands {
		if !inBlock || c.inMulti {
			all = append(all, c.name)
		}
	}
	return all
}
