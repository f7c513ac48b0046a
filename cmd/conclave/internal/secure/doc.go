// Package secure provides TLS for the ports of a server and for connections to one, with
// the same settings and files as Apache ZooKeeper.
//
// From the keys of one family (ssl. for clients, ssl.quorum. between servers) it makes
// listeners and a dialer. What always holds:
//
//	secure-T1  Nothing that a peer sends is handed on before the handshake has
//	           succeeded: its certificate is verified as the settings require. On a
//	           port for both, a connection that does not begin like TLS is plain
//	           from its first byte.
//	secure-T2  A handshake uses one consistent reading of all files: the key fits
//	           the certificate, and the authorities were read at the same moment.
//	           Files that cannot be read, or do not fit together, replace nothing.
//	secure-T3  No connection ends because files have changed.
//
// The files:
//
//	settings.go    the keys and what they mean
//	stores.go      reads key and trust stores
//	damage.go      refuses damaged stores before they do harm
//	source.go      keeps the material that was read, and reads it again
//	verify.go      compares certificates with hosts
//	reverse.go     finds the names of addresses
//	revocation.go  checks whether certificates were revoked
//	answers.go     caches the answers about revocation
//	lists.go       reads revocation lists
//	conn.go        connections
//	name.go        writes the names of certificates as Java does
//	clientid.go    finds a client's id in its certificate
package secure
