// Package ensemble is the configuration of an ensemble as a value: who the
// servers are, where they listen, who votes and what counts as a quorum.
//
// It parses the text that Apache ZooKeeper uses between servers, in
// /zookeeper/config and in its dynamic configuration files. A Config gives that
// text again, its quorums, and the result of a reconfig. What always holds for
// a Config that Parse or Change returned:
//
//	ensemble-E1  At least one server votes, and no server is named twice.
//	ensemble-E2  Members are in the order of their numbers, and a literal IP
//	             address has the one form that Java prints, so equal
//	             configurations have equal texts, and Parse of a Text is the
//	             Config it was made of.
//	ensemble-E3  With groups, each participant is in exactly one, and none of
//	             them names a server that does not vote.
//	ensemble-E4  The text has no byte that a file or message which carries it
//	             would interpret as something else.
//
// It resolves no names and opens no connections.
package ensemble
