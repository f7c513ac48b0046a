// Package client talks to ZooKeeper servers, Conclave's and Apache's.
//
// A Client is one session. It finds a server, attaches, pings, finds another
// server when the connection is lost, attaches to the same session again, and
// sets its watches and credentials again. Every request is a method with a
// context; any number of goroutines may call at once, and what they send goes
// out together in few writes.
//
//	c, err := client.Dial(ctx, "host1:2181,host2:2181/app", client.Options{})
//	if err != nil { ... }
//	defer c.Close()
//	path, _, err := c.Create(ctx, "/jobs/job-", data, client.CreateOptions{Mode: zk.PersistentSequential})
//
// What always holds:
//
//	client-A1  A failed request is an *Error that reports whether it was
//	           applied, was not, or may have been (Outcome). errors.Is finds the
//	           zk.Code within.
//	client-A2  What can be retried without harm is retried: a method whose request
//	           was lost with its connection and surely not applied waits for
//	           the next connection and sends it again, until its context ends
//	           (or its RetryFor, if it has one), or until eleven connections were lost while it was the oldest
//	           request without an answer: it may be what ends them. A write
//	           that was sent and not answered is never repeated, nor one that
//	           was lost together with one submitted before (Submit): the caller
//	           decides.
//	client-A3  A session that has expired, or must be taken for expired, is
//	           never replaced in silence: all calls fail with
//	           zk.ErrSessionExpired, watches end, Done is closed. A new session
//	           is a new Client.
//	client-A4  No watch event is lost in silence. A one-shot watch delivers
//	           its event even if it happened while no server was reached; a
//	           persistent watch says where events may be missing (an event of
//	           type zk.EventNone).
//	client-A5  No callback of the program runs on the goroutines that keep the
//	           session, so no program can block it, nor on those that wait for a
//	           request: OnEvent has two of its own. Close returns when all of them
//	           have ended.
//
// The decisions are made by internal/clientsession, a machine without clock or
// sockets; this package moves the bytes.
package client
