// Package quorum decides which sets of servers are enough: to elect a leader, to commit a
// transaction, or to carry a change of the ensemble.
//
// A Set is built once from the participants of a configuration. It then answers for any set of
// servers whether they are a quorum. It is arithmetic on sets and imports nothing. What always
// holds, by number, so that code and tests can name it:
//
//	quorum-Q1  Two quorums of one configuration have a participant in common. A
//	           quorum of a Joint has one in common with every quorum of either
//	           half.
//	quorum-Q2  A quorum stays one when servers are added to it.
//	quorum-Q3  Only participants count: others in the set change nothing.
//	quorum-Q4  The empty set is never a quorum, and an ensemble without weight
//	           has none.
//
// The package does not read configurations and does not know what is voted on. The rules are
// those of Apache ZooKeeper's QuorumMaj and QuorumHierarchical.
package quorum
