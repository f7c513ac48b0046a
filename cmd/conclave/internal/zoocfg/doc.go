// Package zoocfg reads zoo.cfg as Apache ZooKeeper reads it and turns it into
// what a server is started with.
//
// In go the text of the file, settings from the command line (Apache's -D
// properties, or its short form "<port> <dataDir> [tickTime [maxClientCnxns]]"),
// and the variables with Java's flags that Apache's scripts read;
// out come a server.Config and remarks for the operator, or errors that name
// file, line, key and the nearest known key. Files writes an ensemble that has
// changed back to where it was read. What always holds:
//
//	zoocfg-C1  A name that Apache knows has a row in the table (keys.go, groups.go,
//	           operators.go, tls.go, environment.go), of which docs/configuration.md is made. It has
//	           an effect, or it has no meaning because of how this server is
//	           built, which is noted, or it asks for something that this version
//	           does not serve, which is an error.
//	zoocfg-C2  A key that is nearly a known one is an error: Apache would make
//	           it a property that nobody reads. Other unknown keys are remarks,
//	           because a file that starts Apache ZooKeeper must start this
//	           server.
//	zoocfg-C3  All errors of a file are told at once.
//	zoocfg-C4  What Files has written is read as the same ensemble, here and by
//	           Apache, and so is what Apache has written. A crash between leaves
//	           files that can be read.
//	zoocfg-C5  Files puts nothing that a start would be refused with in the place of
//	           what one is possible with.
package zoocfg
