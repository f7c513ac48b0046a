// Package server is the shell around a replica: sockets, disk, clock and goroutines.
//
// One goroutine, the loop, owns the replica. Connections, the disk and the timer put events
// into its inbox. The loop takes the events that have arrived, as many as one step may cost,
// steps the replica once, gives the records to the disk goroutine, and wakes the connections
// that have something to send. While the disk writes and syncs one batch, the next one gathers:
// that is the group commit.
//
//	config.go       what a server is started with
//	recover.go      from the files to a replica
//	server.go       start and end
//
//	clientports.go  where clients connect
//	conns.go        accepts connections, within their limits
//	conn.go         one connection: handshake, then requests until its end
//	idle.go         a connection without a goroutine, while its client is idle
//	idle_linux.go   waits for all of those at once
//	idle_other.go   for systems where that is not possible
//	groups.go       identities of its certificate by the map of domains, as that changes
//	owners.go       the identities to which it belongs, if those have a limit
//	input.go        the bytes of a connection, without a buffer for idle ones
//	socket_unix.go  reads and writes a socket without waiting
//	socket_other.go for systems where that is not possible
//	handle.go       one batch of requests of a connection
//	budget.go       bounds the memory of all long requests together
//	handshakes.go   which connections may shake hands for TLS
//	throttle.go     what is refused or waits if ZooKeeper's throttles are on
//	pace.go         what waits or is refused because it comes too fast
//	outbox.go       gathers replies and events of a connection, writes them
//	laggards.go     whom to disconnect when all outboxes, or unfinished requests, hold too much
//	commands.go     four-letter words instead of a handshake
//	reports.go      what operators ask for, one of a kind at a time
//	expire.go       ends a session for a test
//
//	inbox.go        gathers events for the loop
//	loop.go         the loop
//	events.go       passes the watch events of a transaction to all that receive them
//	disk.go         appends and syncs, notifies the loop
//	stalled.go      logs that the disk hangs
//	snapshots.go    writes fuzzy snapshots and purges, while everything else goes on
//
//	peers.go        the connections to the other servers
//	peerinbox.go    bounds what they send
//	oracle.go       asks whether one of two servers may go on alone
//	behind.go       records since when messages have waited
//	busy.go         reports that the server works while the loop is at a long step
//	moves.go        a snapshot on its way in
//	reconfig.go     a change of the ensemble, carried out
//	saver.go        saves it for the next start, without holding up the loop
//	refused.go      logs why a reconfig was refused
//
//	role.go         the role, as programs and the log are told of it
//	status.go       what monitoring asks for
//	meters.go       what metrics ask for in addition: times and bytes since the start
//	meters_clients.go  what connections count by themselves, and quotas, for metrics
//	meters_peers.go    elections, synchronization, proposals and their acks, for metrics
//	digest.go       logs trees that differ
//	quota.go        logs quotas that are exceeded, and watchers that are disconnected
//	expirylog.go    logs sessions that have expired
//	aside.go        separates all of them from the log, which may accept nothing
//	audit.go        who has changed what, for the audit log
//	backups.go      the results of backups, which another package takes
//	trace.go        the way of writes that are traced
//	heap.go         how much garbage may gather
//
// What always holds:
//
//	server-H1  A record is on disk before the loop learns of it.
//	server-H2  Any error of the log ends the server, with its reason, before
//	           another reply leaves.
//	server-H3  A connection's replies and events leave in the order in which
//	           they were put into its outbox; what does not fit ends the
//	           connection.
package server
