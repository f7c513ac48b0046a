// Package client talks to ZooKeeper servers, Conclave's and Apache's.
//
// A Client is one session. It finds a server, attaches, pings, finds another server when the
// connection is lost, attaches to the same session again, and sets its watches and credentials
// again. Every request is a method with a context. Any number of goroutines may call at once;
// their requests are sent together in few writes.
//
//	c, err := client.Dial(ctx, "host1:2181,host2:2181/app", client.Options{})
//	if err != nil { ... }
//	defer c.Close()
//	path, _, err := c.Create(ctx, "/jobs/job-", data, client.CreateOptions{Mode: zk.PersistentSequential})
//
// What always holds:
//
//	client-A1  A failed request returns an *Error, whose Outcome is that the request was applied,
//	           was not applied, or may have been. errors.Is finds the zk.Code in it.
//	client-A2  What can be retried safely is retried. If a request was lost with its connection
//	           and certainly not applied, its method waits for the next connection and sends it
//	           again. It does so until its context ends (or its RetryFor, if it has one), or until
//	           eleven connections were lost while it was the oldest request without an answer,
//	           because the request itself may be what ends them. A write that was sent and not
//	           answered is never repeated, nor is a write that was lost together with one that was
//	           submitted before it (Submit): the caller decides.
//	client-A3  A session that has expired, or must be assumed to have expired, is never silently
//	           replaced: all calls fail with zk.ErrSessionExpired, watches end, and Done is
//	           closed. A new session needs a new Client.
//	client-A4  No watch event is silently lost. A one-shot watch delivers its event even if the
//	           change happened while no server was reached; a persistent watch marks where events
//	           may be missing (an event of type zk.EventNone).
//	client-A5  No callback of the program runs on the goroutines that keep the session, or on
//	           those that wait for a request, so a callback cannot block them: OnEvent has two
//	           goroutines of its own. Close returns when all goroutines have ended.
//
// The decisions are made by internal/clientsession, a machine without clock or sockets; this
// package moves the bytes.
package client
