package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/conclave-project/conclave/election"
)

// The history, requests and nominations are only for people and for the order of the queue.
// They do not decide who leads, so their loss causes no failure, and they are not synced.

// readHistory returns the latest leaderships, as far as they are readable.
func (p place) readHistory() []election.Tenure {
	history, _ := p.history()
	return history
}

func (p place) history() ([]election.Tenure, error) {
	text, err := os.ReadFile(p.path(historyFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, explain("read the history", err)
	}
	var history []election.Tenure
	for line := range bytes.Lines(text) {
		var tenure election.Tenure
		if json.Unmarshal(line, &tenure) == nil {
			history = append(history, tenure)
		}
	}
	return history, nil
}

func (p place) writeHistory(history []election.Tenure) {
	var text bytes.Buffer
	for _, tenure := range history[max(0, len(history)-election.HistoryMin):] {
		line, err := json.Marshal(tenure)
		if err != nil {
			return
		}
		text.Write(append(line, '\n'))
	}
	_ = p.replace(historyFile, text.Bytes())
}

// replace replaces a file atomically.
func (p place) replace(name string, content []byte) error {
	draft := p.draft(name)
	err := errors.Join(p.fail(name), os.WriteFile(draft, content, 0o660))
	if err == nil {
		err = os.Rename(draft, p.path(name))
	}
	if err != nil {
		_ = os.Remove(draft)
	}
	return err
}

// beginTenure records a new leader. Only the holder of the lock calls it.
func (p place) beginTenure(s state) {
	p.forget(nextFile)
	history := closed(p.readHistory(), election.ReasonExpired)
	p.writeHistory(append(history, election.Tenure{Leader: s.leader, Token: s.token, Since: s.since.UTC()}))
}

// endTenure records the end of a leadership.
func (p place) endTenure(grant election.Grant) {
	p.forget(requestFile(grant.Token))
	p.writeHistory(closed(p.readHistory(), grant.Ended))
}

func closed(history []election.Tenure, reason election.Reason) []election.Tenure {
	if last := len(history) - 1; last >= 0 && history[last].Until.IsZero() {
		history[last].Until, history[last].Reason = wallNow().UTC(), reason.String()
	}
	return history
}

func (p place) forget(names ...string) {
	for _, name := range names {
		_ = os.Remove(p.path(name))
	}
}

// readRequest returns the request to the leadership with the token.
func (p place) readRequest(token election.Token) *election.Request {
	text, err := os.ReadFile(p.path(requestFile(token)))
	if err != nil {
		return nil
	}
	var request election.Request
	if json.Unmarshal(text, &request) != nil || request.Token != token {
		return nil
	}
	return &request
}

// Elections returns the names of the elections in the directory.
func (b *Backend) Elections(context.Context) ([]string, error) {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil, explain("list elections", err)
	}
	var names []string
	for _, entry := range entries {
		// The state has the full name; the name of the directory may be shortened.
		text, err := readSmall(place{backend: b, dir: b.dir}.path(entry.Name(), stateFile))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		}
		if s, err := decodeState(text); err == nil && escape(s.election) == entry.Name() {
			names = append(names, s.election)
		} else if name, whole := unescape(entry.Name()); whole {
			names = append(names, name) // one that is damaged or may not be read is listed: a look at it says what is wrong
		}
	}
	slices.Sort(names)
	return names, nil
}

// History returns the latest leaderships.
func (b *Backend) History(_ context.Context, name string) ([]election.Tenure, error) {
	p, err := b.place(name)
	if err != nil {
		return nil, err
	}
	history, err := p.history()
	return election.OneByOne(history), err
}

// Ask leaves a request for the leader, which watches the directory.
func (b *Backend) Ask(_ context.Context, name string, request election.Request) error {
	p, err := b.place(name)
	if err != nil {
		return err
	}
	view, err := p.view()
	if err != nil {
		return err
	}
	if view.Leader == "" || request.Token != 0 && request.Token != view.Token {
		return fmt.Errorf("file: ask the leader of %q: %w", name, election.ErrNoLeader)
	}
	request = request.WithID()
	request.Token = view.Token
	if err := request.Replaces(p.readRequest(view.Token)); err != nil {
		return fmt.Errorf("file: ask the leader of %q: %w", name, err)
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if err := p.replace(requestFile(view.Token), text); err != nil {
		return explain("ask the leader", err)
	}
	return nil
}

// tellNews makes the Elector renew, which brings the news.
func (s *candidate) tellNews() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}
