package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/conclave-project/conclave/clock"
	"github.com/conclave-project/conclave/internal/clientsession"
	"github.com/conclave-project/conclave/internal/wire"
	"github.com/conclave-project/conclave/zk"
)

// call is one request with its result. The goroutine that completes the call owns the
// result until wake; afterwards the caller owns it.
type call struct {
	clientsession.Call
	done    chan struct{} // one element when completed
	replied bool
	bytes   int // of the reply's frame
	code    zk.Code
	zxid    zk.Zxid
	body    []byte // of the reply; nil once it is decoded
	tooLong error  // set instead of the body
	oldest  bool   // it was the first to be answered when the connection was lost
	future  bool   // it belongs to a Future
	follows bool   // it was lost together with a Future's write that was submitted before it
	result  zk.Result
	err     error
	outcome Outcome
	ctxErr  error // set by the caller before it cancels; afterwards the machine may hold the call
}

// newCall takes a call from the pool. w is the watch that the request arms. Each client has
// its own pool, because a channel must not leave the synctest bubble of a program's test.
func (c *Client) newCall(r *zk.Request, w *clientsession.Watch) *call {
	next, ok := c.calls.Get().(*call)
	if !ok {
		next = &call{done: make(chan struct{}, 1)}
		next.Owner = next
	}
	next.Request, next.Watch = *r, w
	return next
}

// release returns the call to the pool, unless the machine may still hold it.
func (c *Client) release(call *call) {
	if call.ctxErr == nil && call.Reset() {
		call.clear()
		c.calls.Put(call)
	}
}

func (c *call) clear() { *c = call{Call: c.Call, done: c.done} }

// complete stores what the machine reports at the end of the call.
func (c *call) complete(e *clientsession.Effect) {
	c.replied, c.code, c.zxid, c.outcome, c.err = e.Replied, e.Code, e.Zxid, Outcome(e.Outcome), e.Err
	c.oldest = e.Oldest
	switch {
	case e.Replied:
		c.err = e.Code.Err()
	case c.err == nil:
		c.err = c.ctxErr
	}
}

// decode decodes the body of a successful reply. An error means that the connection must be
// given up: what follows such a reply cannot be trusted.
func (c *call) decode() error {
	body := c.body
	c.body = nil
	if c.err != nil {
		return nil
	}
	if c.tooLong != nil {
		c.err, c.outcome = c.tooLong, c.unreadable()
		return nil
	}
	var err error
	if c.result, err = wire.DecodeResult(c.Request.Op, len(c.Request.Ops), body); err != nil {
		c.err = fmt.Errorf("%w: %w", zk.ErrConnectionLoss, err)
		c.outcome = c.unreadable()
	}
	return err
}

// unreadable returns the outcome of a request whose reply has a header that says success
// and a body that cannot be decoded. Whether a multi was applied is only in the body.
func (c *call) unreadable() Outcome {
	switch {
	case !c.Request.Op.IsWrite():
		return NotApplied
	case c.Request.Op == zk.OpMulti:
		return Unknown
	}
	return Applied
}

func (c *call) wake() { c.done <- struct{}{} }

// wait waits for the end of the call and returns its error. It cancels the call when ctx
// ends, or when a call without a server has used up its patience. p is nil if patience has
// no limit.
func (c *call) wait(ctx context.Context, client *Client, p *patience) error {
	for {
		lost, spent := c.outlives(client, p)
		if spent {
			<-c.done
			return c.err
		}
		select {
		case <-c.done:
			return c.err
		case <-lost:
			continue
		case <-ctx.Done():
			client.mu.Lock()
			c.cancel(ctx.Err(), client)
		case <-p.fired():
			p.stop()
			client.mu.Lock()
			if !client.serverless() {
				client.mu.Unlock()
				continue
			}
			c.cancel(client.noServer(), client)
		}
		client.mu.Unlock()
		<-c.done // completed just now, or before and about to be decoded
		return c.err
	}
}

// outlives handles a credential's call, which is not completed when its connection is lost:
// its patience begins then. It returns a channel that is closed when the current server is
// lost; nil if there is no server, and for all other calls. If the patience is used up, it
// cancels the call and returns true.
func (c *call) outlives(client *Client, p *patience) (lost <-chan struct{}, spent bool) {
	if p == nil || c.Request.Op != zk.OpAuth {
		return nil, false
	}
	client.mu.Lock()
	defer client.mu.Unlock()
	switch {
	case client.serverless():
		if p.spent() {
			c.cancel(client.noServer(), client)
			return nil, true
		}
		return nil, false
	case client.lost == nil:
		client.lost = make(chan struct{})
	}
	return client.lost, false
}

// cancel ends the call unless it is completed. The caller holds Client.mu.
func (c *call) cancel(why error, client *Client) {
	c.ctxErr = why
	client.step(clientsession.Event{Kind: clientsession.Cancel, Call: &c.Call})
}

// submit sends a call, or queues it until there is a connection. It does not check for
// space; see submitWhenSpace.
func (c *Client) submit(call *call) {
	c.post(clientsession.Event{Kind: clientsession.Submit, Call: &call.Call})
}

// submitWhenSpace submits a call as soon as there is space for it. The error is that of the
// context, or says that a call without a server has used up its patience.
func (c *Client) submitWhenSpace(ctx context.Context, call *call, p *patience) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	event := clientsession.Event{Kind: clientsession.Submit, Call: &call.Call}
	for {
		c.mu.Lock()
		if c.serverless() && p.spent() {
			err := c.noServer()
			c.mu.Unlock()
			return err
		}
		if !c.full() {
			c.step(event)
			c.mu.Unlock()
			return nil
		}
		if c.space == nil {
			c.space = make(chan struct{})
		}
		space := c.space
		c.mu.Unlock()
		select {
		case <-space:
		case <-p.fired():
			p.stop()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// resendsMax is how often a request is sent again that was each time the oldest one without
// an answer when its connection was lost.
const resendsMax = 10

// errFirstLost marks the error of a request that may have caused the loss of its
// connections.
var errFirstLost = errors.New("the first of its connection to be lost")

// do sends a request, waits for its result, and reports it to OnEvent. shown is the path
// for the error.
func (c *Client) do(ctx context.Context, r *zk.Request, w *clientsession.Watch, shown string) (zk.Result, error) {
	if n := requestBytes(r); n > c.options.RequestBytesMax {
		return zk.Result{}, &Error{r.Op, shown, &tooLong{n, c.options.RequestBytesMax}, NotApplied}
	}
	var t tally
	if c.options.OnEvent == nil {
		return c.perform(ctx, r, w, shown, &t)
	}
	t.began = c.clock.Now()
	result, err := c.perform(ctx, r, w, shown, &t)
	c.tellRequest(r, shown, &t, c.errorOf(r, result, err))
	return result, err
}

// perform sends a request and waits for its result. A request that was lost with its
// connection and certainly not applied is sent again for as long as RetryFor allows
// (client-A2). There are two exceptions. A write is not sent again if it was lost together
// with a Future's write that was submitted before it: the caller may still wait for that
// one, and the later one must not be applied alone. And a request that was the oldest
// without an answer each time may be what ends the connections, with all other requests on
// them, so it is given up at some point.
func (c *Client) perform(ctx context.Context, r *zk.Request, w *clientsession.Watch, shown string, t *tally) (zk.Result, error) {
	p := patience{c: c, ctx: ctx}
	defer p.stop()
	for lost := 0; ; {
		call := c.newCall(r, w)
		if err := c.submitWhenSpace(ctx, call, &p); err != nil {
			c.release(call)
			return zk.Result{}, &Error{r.Op, shown, err, NotApplied}
		}
		err := call.wait(ctx, c, &p)
		t.tries, t.bytes = t.tries+1, call.bytes
		result, outcome, replied, late := call.result, call.outcome, call.replied, call.follows && r.Op.IsWrite()
		if call.oldest {
			lost++
		}
		armed := err != nil && replied && call.code == zk.OK // but the reply cannot be decoded
		c.release(call)
		if err == nil {
			return result, nil
		}
		if !replied && outcome == NotApplied && mayPass(err) && !late && ctx.Err() == nil {
			switch {
			case p.spent():
				err = fmt.Errorf("%w: %w", ErrNotRetried, err)
			case lost <= resendsMax:
				continue
			default:
				err = fmt.Errorf("%w, %d times: %w", errFirstLost, lost, err)
			}
		}
		if armed && w != nil {
			c.post(clientsession.Event{Kind: clientsession.Unwatch, Watch: w})
		}
		return result, &Error{r.Op, shown, err, outcome}
	}
}

// Future is the result of a request that was submitted without waiting.
type Future struct {
	client *Client
	call   *call
	shown  string
	began  clock.Instant // only set if there is an OnEvent
}

// Submit sends a request without waiting for its reply. Requests of one goroutine are sent in
// order. When a connection is lost, all submitted requests in progress fail together, both sent
// and waiting ones, and so does a write by another method that was called after them. What is
// submitted after that goes to the next server. So wait for a request's result before you submit
// one that depends on it. Path is relative to the chroot as everywhere and is not checked here.
// Requests that arm watches or belong to the session itself have their own methods and are
// refused. ctx bounds the wait for space, see Options.InFlightMax. r and what it refers to must
// not change until the result is there.
func (c *Client) Submit(ctx context.Context, r zk.Request) (*Future, error) {
	shown := r.Path
	if err := submittable(&r); err != nil {
		return nil, refusal(r.Op, shown, err)
	}
	if n := requestBytes(&r); n > c.options.RequestBytesMax {
		return nil, &Error{r.Op, shown, &tooLong{n, c.options.RequestBytesMax}, NotApplied}
	}
	c.mapRequest(&r)
	call := c.newCall(&r, nil)
	call.future = true
	f := &Future{client: c, call: call, shown: shown}
	if c.options.OnEvent != nil {
		f.began = c.clock.Now()
	}
	if err := c.submitWhenSpace(ctx, call, nil); err != nil {
		c.release(call)
		return nil, &Error{r.Op, shown, err, NotApplied}
	}
	return f, nil
}

// Wait returns the request's result; for a multi, also the error of the first operation that
// failed. It may be called once. If ctx ends first, the request is given up; if it was sent, it
// may still be applied.
func (f *Future) Wait(ctx context.Context) (zk.Result, error) {
	err := f.call.wait(ctx, f.client, nil)
	result, outcome, r := f.call.result, f.call.outcome, f.call.Request
	t := tally{began: f.began, tries: 1, bytes: f.call.bytes}
	f.client.release(f.call)
	if err != nil {
		err = &Error{r.Op, f.shown, err, outcome}
	}
	if f.client.options.OnEvent != nil {
		f.client.tellRequest(&r, f.shown, &t, f.client.errorOf(&r, result, err))
	}
	if err != nil {
		return result, err
	}
	f.client.unmapResult(&result)
	return result, f.client.failureOf(&r, result)
}
