package zookeeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/client"
	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/zk"
)

// book is the data of an election's own znode.
type book struct {
	// Conclave is the version of this form. Data without it belongs to
	// somebody else and is left alone.
	Conclave int               `json:"conclave"`
	Request  *election.Request `json:"request,omitempty"`
	History  []election.Change `json:"history,omitempty"`
}

const bookForm = 1

// errForeign says that the data of the election's znode is not ours to change.
var errForeign = errors.New("the data of the election's znode was written by another program")

func readBook(data []byte) (book, error) {
	b := book{Conclave: bookForm}
	if len(data) == 0 {
		return b, nil
	}
	b.Conclave = 0
	if err := json.Unmarshal(data, &b); err != nil || b.Conclave != bookForm {
		return book{}, errForeign
	}
	return b, nil
}

// entered notes a new leader. A leadership that is open was never given back.
// What is asked of the new leader may be in the book already: whoever comes
// first in line is seen to lead before the book says so.
func (b book) entered(id string, token election.Token, now time.Time) book {
	b = b.closed(election.ReasonExpired, now)
	if b.Request != nil && b.Request.Token != token {
		b.Request = nil
	}
	b.History = append(b.History, election.Change{Leader: id, Token: token, Since: now})
	b.History = b.History[max(0, len(b.History)-election.HistoryMin):]
	return b
}

// closed notes the end of the last leadership.
func (b book) closed(reason election.Reason, now time.Time) book {
	b.History = slices.Clone(b.History)
	if last := len(b.History) - 1; last >= 0 && b.History[last].Until.IsZero() {
		b.History[last].Until, b.History[last].Reason = now, reason.String()
	}
	return b
}

// write is the operation that puts the book in place of the given version.
func (b book) write(path string, version int32) client.Operation {
	data, err := json.Marshal(b)
	if err != nil {
		panic("zookeeper: a book of texts, numbers and times does not marshal: " + err.Error())
	}
	return client.SetOp(path, data, version)
}

func wall() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// enter proves the grant and notes the new leader in the book, in one
// transaction. A book that cannot be kept keeps nobody from leading.
func (b *Backend) enter(ctx context.Context, s *seat) (election.Grant, error) {
	grant := election.Grant{Claim: s.claim}
	for range bookTries {
		data, stat, err := s.session.Get(ctx, s.parent)
		if err != nil {
			break
		}
		page, err := readBook(data)
		if err != nil {
			break
		}
		token := election.Token(s.spot.Load().czxid)
		entry := page.entered(s.claim.ID, token, wall()).write(s.parent, stat.Version)
		entered, err := b.prove(ctx, s, grant, entry)
		if err == nil || !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoAuth) {
			return entered, err
		}
	}
	return b.prove(ctx, s, grant)
}

// bookTries is how often a change of the book is tried again because somebody
// else has changed it.
const bookTries = 3

// leaveOffice takes a leader out of the queue, with the entry in the book and
// what a nomination needs, in one transaction. It returns false when that was
// not possible; the znode may then be there or not.
func (b *Backend) leaveOffice(ctx context.Context, s *seat, grant election.Grant) bool {
	spot := s.spot.Load()
	if spot == nil || grant.Token == 0 || s.session.Err() != nil {
		return false
	}
	for range bookTries {
		ops := append(s.makeWay(ctx), client.DeleteOp(spot.path, -1))
		data, stat, err := s.session.Get(ctx, s.parent)
		if err != nil {
			return false
		}
		if page, err := readBook(data); err == nil {
			page = page.closed(grant.Ended, wall())
			page.Request = nil
			ops = append(ops, page.write(s.parent, stat.Version))
		}
		_, err = s.session.Multi(ctx, ops...)
		if err == nil {
			return true
		}
		if !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
			return false
		}
	}
	return false
}

// upToDate returns a session on a server that has seen all that was written
// before: operators are told what is, not what was.
func (b *Backend) upToDate(ctx context.Context) (*client.Client, error) {
	c, err := b.session(ctx, observeLease)
	if err == nil {
		if err = c.Sync(ctx, "/"); err != nil {
			err = fmt.Errorf("zookeeper: sync: %w", mark(err))
		}
	}
	return c, err
}

// Elections returns the names of the elections that have a znode.
func (b *Backend) Elections(ctx context.Context) ([]string, error) {
	c, err := b.upToDate(ctx)
	if err != nil {
		return nil, err
	}
	children, _, err := c.Children(ctx, b.options.Root)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return nil, fmt.Errorf("zookeeper: list %s: %w", b.options.Root, mark(err))
	}
	for i, child := range children {
		children[i] = unescape(child)
	}
	slices.Sort(children)
	return children, nil
}

// History returns what the book says.
func (b *Backend) History(ctx context.Context, name string) ([]election.Change, error) {
	c, err := b.upToDate(ctx)
	if err != nil {
		return nil, err
	}
	data, _, err := c.Get(ctx, b.parent(name))
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("zookeeper: read %s: %w", b.parent(name), mark(err))
	}
	page, err := readBook(data)
	if err != nil {
		return nil, fmt.Errorf("zookeeper: read the history in %s: %w", b.parent(name), err)
	}
	return election.OneByOne(page.History), nil
}

// Ask writes the request into the book, where the leader watches it.
func (b *Backend) Ask(ctx context.Context, name string, request election.Request) error {
	for {
		c, err := b.upToDate(ctx)
		if err != nil {
			return err
		}
		err = b.ask(ctx, c, name, request)
		if err == nil || !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, errGone) {
			return err
		}
	}
}

// ask writes the request for the leader that it sees, if that still leads when
// the request is decided: a late one must not replace what was asked of the next.
func (b *Backend) ask(ctx context.Context, c *client.Client, name string, request election.Request) error {
	path := b.parent(name)
	o := &observer{backend: b, name: name, parent: path, members: make(map[string]member)}
	view, watch, err := o.look(ctx)
	if err != nil {
		return fmt.Errorf("zookeeper: ask the leader of %q: %w", name, err)
	}
	watch.Close()
	if view.Leader == "" || request.Token != 0 && request.Token != view.Token {
		return fmt.Errorf("zookeeper: ask the leader of %q: %w", name, election.ErrNoLeader)
	}
	data, stat, err := c.Get(ctx, path)
	if err == nil {
		var page book
		if page, err = readBook(data); err == nil {
			request.Token = view.Token
			page.Request = &request
			_, err = c.Multi(ctx, client.CheckOp(o.leader, -1), page.write(path, stat.Version))
		}
	}
	if errors.Is(err, zk.ErrNoNode) {
		return errGone
	}
	if err != nil {
		return fmt.Errorf("zookeeper: ask the leader of %q: %w", name, mark(err))
	}
	return nil
}

// hearRequests tells the Elector of requests in the book until the seat is
// left.
func (s *seat) hearRequests(news chan<- struct{}) {
	for s.ctx.Err() == nil {
		data, _, watch, err := s.session.GetW(s.ctx, s.parent)
		if err != nil {
			return // the renewals find out what is wrong
		}
		if page, err := readBook(data); err == nil && page.Request != nil {
			s.request.Store(page.Request)
			select {
			case news <- struct{}{}:
			default:
			}
		}
		select {
		case <-watch.Events():
		case <-s.session.Done():
		case <-s.ctx.Done():
		}
		watch.Close()
		if s.session.Err() != nil {
			return
		}
	}
}

// Data of a candidate's znode: its id, and after a nomination a line that says
// how far it is. Ids have no line breaks.
const (
	lineNominated = "\nnominated"
	lineReady     = "\nready"
	lineCold      = "\ncold"
)

func idOf(data []byte) string {
	id, _, _ := bytes.Cut(data, []byte("\n"))
	return string(id)
}

func stateOf(data []byte) string {
	if at := strings.IndexByte(string(data), '\n'); at >= 0 {
		return string(data[at:])
	}
	return ""
}
