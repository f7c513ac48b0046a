// Package jute encodes and decodes the primitives of ZooKeeper's serialization:
// big-endian integers, booleans, and byte strings and vectors with an int32
// count in front, where -1 is null.
//
// Encoding appends to a byte slice and cannot fail. Decoding reads a byte slice
// with a Decoder whose error sticks: after the first failure every read returns
// the zero value, so the caller decodes a whole record and checks Err once at
// the end. What always holds:
//
//	jute-J1  A Decoder never reads beyond its input and never panics.
//	jute-J2  A count is compared with what is left of the input before memory is
//	         taken.
//	jute-J3  Bytes returns a part of the input, not a copy; its capacity ends
//	         with it.
package jute
