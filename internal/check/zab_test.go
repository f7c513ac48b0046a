package check

import "testing"

// three sets up three servers that have 1.1 and 1.2 on disk. Server 1 leads epoch 1,
// and all of them serve.
const three = `append 1 1.1 1.2
append 2 1.1 1.2
append 3 1.1 1.2
durable 1 1.2
durable 2 1.2
durable 3 1.2
lead 1 1 1.2
serve 2 1 1.2
serve 3 1 1.2
`

// moving is a reconfig at 1.3, from 1 2 3 to 1 4 5, that server 1 has on disk; with
// join, 4 and 5 have it too.
const (
	moving = "reconfig 1 1.3 1 4 5\ndurable 1 1.3\n"
	join   = "append 4 1.1 1.2 1.3\nappend 5 1.1 1.2 1.3\ndurable 4 1.3\ndurable 5 1.3\nserve 4 1 1.2\n"
)

func TestOrder(t *testing.T) {
	play(t, []history{
		{"all equal", three + "equal 0", ""},
		{"a write comes to all", three + "append 1 1.3\nappend 2 1.3\ndurable 2 1.3\ndurable 1 1.3\nshow 1 1.3\nshow 2 1.3\nappend 3 1.3\nshow 3 1.3\nequal 0", ""},
		{"a server is behind", three + "append 1 1.3\nappend 2 1.3\ndurable 2 1.3\ndurable 1 1.3\nshow 1 1.3\nshow 2 1.3\nequal 0", "O3"},
		{"a server does not serve", three + "leave 3\nequal 0", "O3"},
		{"two transactions of one zxid", three + "append 1 1.3\nappend 2 1.3x", "O1"},
		{"a zxid given again after a crash", three + "append 1 1.3\nrecover 1 1.2\nappend 1 1.3x", "O1"},
		{"a gap in a log", three + "append 1 1.4", "O2"},
		{"an epoch begins at 2", three + "append 1 2.2", "O2"},
		{"a record of an older epoch", three + "append 1 2.1\nappend 1 1.3", "O2"},
		{"the same record twice", three + "append 1 1.2", "O2"},
		{"recovery invents", three + "recover 1 1.3", "O2"},
		{"recovery after a lost tail", three + "append 1 1.3\nrecover 1 1.2\nserve 1 1 1.2", ""},
		{"O9 a sound disk forgets", three + "recover 1 1.1", "O9"},
		{"a damaged disk forgets", three + "damaged 1\nrecover 1 1.1", ""},
		{"cut to a place it has not", three + "truncate 1 1.5", "O2"},
		{"a snapshot of nobody's", three + "copy 1 2 1.4", "O2"},
		{"a snapshot is lost in a crash", three + "append 1 1.3\ndurable 1 1.3\ncopy 3 1 1.3\nrecover 3 1.2\nserve 3 1 1.2", ""},
		{"a snapshot that was saved", three + "append 1 1.3\ndurable 1 1.3\ncopy 3 1 1.3\ndurable 3 1.3\nrecover 3 1.3", ""},
		{"a cut that a crash undoes before it is durable", three + "append 1 1.3\ndurable 1 1.3\ntruncate 1 1.2\nrecover 1 1.3", ""},
		{"a cut that a crash undoes later", three + "append 1 1.3\ndurable 1 1.3\ntruncate 1 1.2\ndurable 1 1.2\nrecover 1 1.3", "O2"},
		{"divergence", three + "append 1 1.3\nappend 2 1.3\ndurable 1 1.3\ndurable 2 1.3\nshow 1 1.3\nleave 3\nappend 3 2.1\nserve 3 2 2.1", "O3"},
		{"a gap that only the others show", three +
			"append 1 1.3 1.4\nappend 2 1.3 1.4\ndurable 1 1.4\ndurable 2 1.4\nshow 1 1.4\nappend 3 2.1\nshow 3 2.1", "O3"},
		{"shows what it has not", three + "show 2 1.3", "O3"},
		{"shows and does not serve", three + "leave 2\nshow 2 1.2", "O3"},
		{"shows less than before", three + "show 2 1.1", "O7"},
		{"two leaders of one epoch", three + "lead 2 1 1.2", "O4"},
		{"a leader twice", three + "leave 1\nlead 1 1 1.2", ""},
		{"a leader lost what was shown", three + "append 1 1.3\nappend 2 1.3\ndurable 1 1.3\ndurable 2 1.3\nshow 1 1.3\nlead 3 2 1.2", "O5"},
		{"a leader without what nobody has shown", three + "append 1 1.3\nlead 3 2 1.2", ""},
		{"a deposed leader that has not learned of it", three + "append 2 2.1\nappend 3 2.1\ndurable 2 2.1\ndurable 3 2.1\nlead 2 2 2.1\nlead 1 1 1.2", ""},
		{"shown on one disk", three + "append 1 1.3\ndurable 1 1.3\nshow 1 1.3", "O6"},
		{"shown by acks of a disk that was damaged since", three +
			"append 1 1.3\nappend 2 1.3\ndurable 2 1.3\ndamaged 2\nrecover 2 0.0\ndurable 1 1.3\nshow 1 1.3", ""},
		{"shown by acks of a server that takes over a snapshot since", three + "append 1 1.3\nappend 2 1.3\ndurable 1 1.3\ndurable 2 1.3\ncopy 2 1 1.3\nshow 1 1.3", ""},
		{"what a server had not before its snapshot", three + "append 1 1.3\nappend 2 1.3\ndurable 1 1.3\ncopy 2 1 1.3\nshow 1 1.3", "O6"},
		{"what a server had before a snapshot that is saved", three + "append 1 1.3\nappend 2 1.3\ndurable 1 1.3\ndurable 2 1.3\ncopy 2 1 1.2\ndurable 2 1.2\nshow 1 1.3", "O6"},
		{"what a damaged disk had not", three + "append 1 1.3\nappend 2 1.3\ndamaged 2\nrecover 2 1.1\ndurable 1 1.3\nshow 1 1.3", "O6"},
		{"a damaged disk that is filled again", three +
			"append 1 1.3\nappend 2 1.3\ndurable 2 1.3\ndamaged 2\nrecover 2 1.1\nappend 2 1.2\ndurable 2 1.2\ndurable 1 1.3\nshow 1 1.3", "O6"},
		{"shown before any sync", three + "append 1 1.3\nappend 2 1.3\nappend 3 1.3\nshow 1 1.3", "O6"},
		{"a reconfig on a quorum of the old servers alone", three + moving + "append 2 1.3\ndurable 2 1.3\nshow 1 1.3", "O6"},
		{"a reconfig on a quorum of the new servers alone", three + moving + join + "leave 1\nshow 4 1.3", "O6"},
		{"a reconfig on quorums of both", three + moving + join + "append 2 1.3\ndurable 2 1.3\nshow 1 1.3\ninforce 4 1.3 1 4 5", ""},
		{"what is after a reconfig on the new servers alone", three + moving + join +
			"append 2 1.3\ndurable 2 1.3\nshow 1 1.3\nappend 1 1.4\nappend 4 1.4\ndurable 1 1.4\ndurable 4 1.4\nshow 1 1.4", ""},
		{"what is after a reconfig on the old servers alone", three + moving + join +
			"append 2 1.3\ndurable 2 1.3\nshow 1 1.3\nappend 1 1.4\nappend 2 1.4\ndurable 1 1.4\ndurable 2 1.4\nshow 1 1.4", "O6"},
		{"a configuration in force before its commit", three + moving + join + "inforce 4 1.3 1 4 5", "O8"},
		{"a configuration of no reconfig", three + "inforce 1 1.2 1 2 3", "O8"},
		{"two configurations of one reconfig", three + moving + join + "append 2 1.3\ndurable 2 1.3\nshow 1 1.3\ninforce 1 1.3 1 2", "O8"},
		{"the configuration of the start", three + "inforce 1 1.0 1 2 3", ""},
		{"an observer's disk does not count", three + "append 1 1.3\nappend 4 1.1 1.2 1.3\ndurable 1 1.3\ndurable 4 1.3\nshow 1 1.3", "O6"},
	})
}

func TestDigests(t *testing.T) {
	play(t, []history{
		{"equal", "digest 1 1.1 7\ndigest 2 1.1 7\ndigest 1 1.2 8\ndigest 2 1.2 8", ""},
		{"two trees", "digest 1 1.1 7\ndigest 2 1.1 8", "server 2"},
		{"a tree that is not its former self", "digest 1 1.1 7\ndigest 1 1.2 8\ndigest 1 1.1 8", "server 1"},
	})
}
