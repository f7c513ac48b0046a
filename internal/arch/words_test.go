package arch

// A word is a word or phrase that the tree does not use, because the glossary has another
// word for its meaning.
type word struct {
	refused string // words and phrases, separated by commas
	instead string
	allowed []allowance
}

// An allowance is a phrase in which a refused word has a different meaning.
type allowance struct{ phrase, why string }

// words is the glossary's table, read from right to left. The check splits identifiers into words,
// joins lines, and ignores capitals and punctuation.
var words = []word{
	{"in line", "waiting, queued; the next in line is the successor", nil},
	{"traits line, out of line, line of candidates, line of all candidates, entry in the line, join the line, line is seen", "queue; waiters", nil},
	{"stand for election, stands for election, stand for the election, stands for the election", "campaign", nil},
	{"sign of life, signs of life, life sign", "heartbeat; touch of a session", nil},
	{"beat, beats, beating", "heartbeat", []allowance{
		{"json beat", "a field of records that released versions write"},
		{"beat 1", "the same in a text"},
		{"record beat", "the same in a text"},
	}},
	{"let go, lets go, letting go", "steps down, releases", nil},
	{"give back, gives back, gave back, given back, giving back, give it back, gives it back, gave it back, given it back, " +
		"gives the lock back, gives the lease back, gives a leadership back, gives the grant back, gives a claim back, " +
		"gives the claim back, gives the space back", "release, return", nil},
	{"belief, beliefs, believe, believes, believed, believing, believer, believers", "considers; deadline", nil},
	{"cold", "not ready", []allowance{
		{"ready cold", "the state in records that released versions write"},
	}},
	{"is warm, are warm, be warm, was warm, not warm, already warm, still warm, itself warm, first warm", "ready", []allowance{
		{"not warm up", "the verb"},
	}},
	{"wish, wishes, wished", "watch; request", nil},
	{"telling", "notification", nil},
	{"tell whether, tells whether, say whether, says whether", "reports whether", nil},
	{"hear, hears, heard, hearsay", "receives, learns of", []allowance{
		{"leader heard ms", "a metric of released versions"},
		{"learner d heard ms", "a metric of released versions"},
		{"learner n heard ms", "a metric of released versions"},
		{"json heard", "a field of messages that released members read"},
	}},
	{"heed, heeds, heeded", "honours", nil},
	{"mend, mends, mended, mending", "repairs, retries, fixes; a partition heals", nil},
	{"stand still, stands still, stood still, standing still", "stalled, paused", nil},
	{"hole, holes", "gap", nil},
	{"anew, once more", "again", nil},
	{"one behind the other, comes behind, came behind, come behind, stands behind, stood behind, stand behind, " +
		"right behind, log behind, records behind, snapshot behind, cut behind, goes behind, behind zxid", "after", nil},
	{"larger token, larger term, larger epoch, larger zxid, larger version, greater token, greater tokens, greater term, greater epoch, " +
		"greater zxid, greater heartbeat, smaller token, smaller epoch, smaller zxid, beaten", "higher, lower", nil},
	{"zookeeper cluster, conclave cluster, cluster of servers, server node, server nodes, cluster node, cluster nodes, " +
		"node of the ensemble, nodes of the ensemble, master server", "ensemble, server, leader", nil},
	{"cut its log, cut the log, log is cut, log was cut, cuts its log, cuts the log, cut log", "truncate", nil},
	{"settle, settles, settled, settling, unsettled", "name what becomes final", []allowance{
		{"key settled", "a key of NATS that released versions write"},
		{"settled the incarnation", "the same key, in a text"},
	}},
	{"bury, buries, buried, ebb, ebbs, farewell, farewells", "remove; drain; end", nil},
	{"linger, lingers, lingered, lingering", "wait", []allowance{
		{"set linger", "of net.TCPConn"},
	}},
	{"pass over, passed over, passes over, passing over", "ignored", nil},
	{"cut off, cuts off, cutting off, cut it off, cuts it off, cut them off, cuts them off", "disconnected, partitioned; truncated", nil},
	{"whoever", "a client that, a candidate that", nil},
	{"bring up, brings up, brought up, catch up, catches up, caught up", "synchronize", nil},
	{"ballot, ballots", "vote", nil},
	{"voter, voters", "participant", []allowance{{"disloyal voter", "a metric of ZooKeeper's"}, {"quorum voters", "a setting of Kafka's"}}},
	{"slave, slaves", "follower", nil},
	{"log entry, log entries", "transaction", nil},
	{"view change, view number", "epoch", nil},
	{"room, rooms", "package; space", nil},
	{"lower floors, higher floors, same floor, on floor", "layer", nil},
	{"to who, for who, from who, by who, than who", "to a client that, for a server that", []allowance{
		{"for who in", "a loop"},
		{"for who may", "an indirect question"},
		{"for who range", "a loop"},
	}},
	{"word, words", "message, decision", []allowance{
		{"four letter word", "ZooKeeper's commands"},
		{"four letter words", "ZooKeeper's commands"},
		{"serve words", "a flag"},
		{"words 4lw commands whitelist", "the same flag"},
	}},
}
