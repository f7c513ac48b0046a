// Package zoocfg reads zoo.cfg as Apache ZooKeeper does and turns it into the configuration
// of a server.
//
// Its input is the text of the file, settings from the command line (Apache's -D
// properties, or its short form "<port> <dataDir> [tickTime [maxClientCnxns]]"), and the
// variables with Java's flags that Apache's scripts read. The result is a server.Config and
// remarks for the operator, or errors that name file, line, key and the nearest known key.
// Files writes a changed ensemble back to the files from which it was read. What always
// holds:
//
//	zoocfg-C1  A name that Apache knows has a row in the table (keys.go, groups.go,
//	           operators.go, tls.go, environment.go), from which docs/configuration.md is made. It has
//	           an effect, or it has no meaning because of how this server is
//	           built, which is noted, or it asks for something that this version
//	           does not serve, which is an error.
//	zoocfg-C2  A key that is nearly a known one is an error: Apache would turn it
//	           into a property that nobody reads. Other unknown keys are remarks,
//	           because a file that starts Apache ZooKeeper must start this
//	           server.
//	zoocfg-C3  All errors of a file are reported at once.
//	zoocfg-C4  What Files has written is read as the same ensemble, here and by
//	           Apache, and so is what Apache has written. A crash between two writes
//	           leaves files that can be read.
//	zoocfg-C5  Files never replaces a configuration with which a start is possible
//	           by one with which a start would be refused.
package zoocfg
