// Package secure makes the ports of a server, and connections to one, speak TLS as
// Apache ZooKeeper's do: by the same settings, with the same files.
//
// In go the keys of one family (ssl. for clients, ssl.quorum. among servers), out come
// listeners and a dialer. What always holds:
//
//	secure-T1  Nothing that a peer sends is handed on before the handshake has ended
//	           well: its certificate is verified as the settings ask for. On a port
//	           for both, what does not begin as TLS does is plain from its first byte.
//	secure-T2  A handshake rests on one reading of all files: the key fits the
//	           certificate, and the authorities are those of that moment. Files that
//	           cannot be read, or do not fit together, replace nothing.
//	secure-T3  No connection ends because files have changed.
//
// Files: settings.go has the keys and what they mean, stores.go reads key and trust
// stores, damage.go refuses those that are damaged before they do harm, source.go keeps
// what was read and reads it again, verify.go compares certificates with hosts,
// reverse.go finds the names of addresses,
// revocation.go asks whether they were revoked, answers.go keeps what was said, lists.go
// reads lists of the revoked, conn.go has the connections, name.go writes the names of
// certificates as Java does, clientid.go finds the id of a client in one.
package secure
