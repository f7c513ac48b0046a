package jute

import (
	"encoding/binary"
	"slices"
)

// AppendBool appends one byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendInt appends 4 bytes.
func AppendInt(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

// AppendLong appends 8 bytes.
func AppendLong(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// AppendString appends a ustring. It cannot write null: see AppendNullString.
func AppendString(b []byte, s string) []byte {
	b = AppendInt(b, int32(len(s)))
	return append(b, s...)
}

// AppendNullString appends a ustring that may be null.
func AppendNullString(b []byte, s *string) []byte {
	if s == nil {
		return AppendInt(b, -1)
	}
	return AppendString(b, *s)
}

// AppendBytes appends a buffer; nil is null, empty is empty.
func AppendBytes(b, v []byte) []byte {
	if v == nil {
		return AppendInt(b, -1)
	}
	b = AppendInt(b, int32(len(v)))
	return append(b, v...)
}

// manyStrings is the length from which the space of a vector is allocated in one step. A
// shorter vector nearly always fits into the space there is.
const manyStrings = 1024

// AppendStrings appends a vector of ustrings; nil is empty, not null.
func AppendStrings(b []byte, v []string) []byte {
	if len(v) >= manyStrings {
		bytes := 4 + 4*len(v)
		for _, s := range v {
			bytes += len(s)
		}
		b = slices.Grow(b, bytes)
	}
	b = AppendInt(b, int32(len(v)))
	for _, s := range v {
		b = AppendString(b, s)
	}
	return b
}
