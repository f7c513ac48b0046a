package azureblob

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/conclave-project/conclave/election"
	"github.com/conclave-project/conclave/election/backend/internal/polling"
)

// observeLease is the lease from which an observer derives its pause between polls.
const observeLease = 30 * time.Second

// Observe polls both blobs. A candidate that has acquired the lease but not yet stored its token
// is not seen.
func (b *Backend) Observe(ctx context.Context, name string) iter.Seq2[election.View, error] {
	return func(yield func(election.View, error) bool) {
		o := observer{backend: b, name: name}
		last, first, broken := election.View{Election: name}, true, false
		for ctx.Err() == nil {
			view, err := o.look(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				view, err = last, b.fail("observe", name, err)
			}
			if (first || broken != (err != nil) || !view.Equal(last)) && !yield(view, err) {
				return
			}
			last, first, broken = view, false, err != nil
			_ = polling.Sleep(ctx, polling.Jitter(b.pollOf(observeLease)))
		}
	}
}

// observer is one call of Observe.
type observer struct {
	backend *Backend
	name    string
	next    mark
}

func (o *observer) look(ctx context.Context) (election.View, error) {
	view := election.View{Election: o.name}
	found, err := o.backend.readLock(ctx, o.name)
	if err != nil {
		return view, err
	}
	view.Token = found.state.Token
	if found.leased && found.state.Nonce != "" {
		view.Leader, view.Metadata = found.state.Holder, found.state.Metadata
		if h := found.state.History; len(h) > 0 {
			view.Since = h[len(h)-1].Since
		}
	}
	l, _, err := o.backend.readLine(ctx, o.name)
	if err != nil {
		return view, err
	}
	if o.next.alive(l.Next, o.backend.now()) && l.Next.Nonce != found.state.Nonce {
		view.Waiters = []election.Waiter{{ID: l.Next.ID, Metadata: l.Next.Metadata}}
	}
	return view, nil
}

// Elections returns the names of all elections that have a lock.
func (b *Backend) Elections(ctx context.Context) ([]string, error) {
	prefix := b.options.Prefix + "/"
	var names []string
	pages := b.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: &prefix})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.fail("list", prefix, object{name: prefix}.explain("list", err))
		}
		for _, blob := range page.Segment.BlobItems {
			if name, ok := b.nameOf(*blob.Name); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// History returns the latest leaderships.
func (b *Backend) History(ctx context.Context, name string) ([]election.Tenure, error) {
	found, err := b.readLock(ctx, name)
	if err != nil {
		return nil, b.fail("read the history of", name, err)
	}
	return election.OneByOne(found.state.History), nil
}

// Ask leaves a request in the line. The leader finds it when it renews, within a quarter of its
// lease.
func (b *Backend) Ask(ctx context.Context, name string, request election.Request) error {
	found, err := b.readLock(ctx, name)
	switch token := found.state.Token; {
	case err != nil:
	case !found.leased || found.state.Nonce == "" || request.Token != 0 && request.Token != token:
		err = election.ErrNoLeader
	default:
		request = request.WithID()
		request.Token = token
		err = b.changeLine(ctx, name, nil, func(l line) (line, bool, error) {
			l, err := l.asked(request)
			return l, true, err
		})
	}
	if err != nil {
		return b.fail("ask the leader of", name, err)
	}
	return nil
}
