// Package ensemble is the configuration of an ensemble as a value: who the
// servers are, where they listen, who votes and what counts as a quorum.
//
// In goes the text that Apache ZooKeeper uses everywhere between servers, in
// /zookeeper/config and in its dynamic configuration files; out comes a Config,
// its text again, its quorums, and what a reconfig makes of it. What always
// holds of a Config that Parse or Change returned, by number, so that code and
// tests can name it:
//
//	ensemble-E1  At least one server votes, and no server is named twice.
//	ensemble-E2  Members are in the order of their numbers, and a literal IP
//	             address has the one form that Java prints, so equal
//	             configurations have equal texts, and Parse of a Text is the
//	             Config it was made of.
//	ensemble-E3  With groups, each participant is in exactly one, and none of
//	             them names a server that does not vote.
//	ensemble-E4  The text has no byte that one of the files or messages that
//	             carry it would read as something else.
//
// It resolves no names and opens no connections.
package ensemble
