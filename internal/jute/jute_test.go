package jute

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestValuesSurviveARoundTrip(t *testing.T) {
	var b []byte
	s := "null or not"
	b = AppendBool(b, true)
	b = AppendInt(b, -7)
	b = AppendLong(b, 1<<40)
	b = AppendString(b, "häuser")
	b = AppendBytes(b, nil)
	b = AppendBytes(b, []byte{})
	b = AppendNullString(b, nil)
	b = AppendNullString(b, &s)
	b = AppendStrings(b, []string{"a", "", "c"})
	d := NewDecoder(b, 100)
	if !d.Bool() || d.Int() != -7 || d.Long() != 1<<40 || d.String() != "häuser" {
		t.Fatal("scalars differ")
	}
	if v := d.Bytes(); v != nil {
		t.Fatalf("null buffer reads as %v", v)
	}
	if v := d.Bytes(); v == nil || len(v) != 0 {
		t.Fatalf("empty buffer reads as %v", v)
	}
	if v := d.NullString(); v != nil {
		t.Fatalf("null string reads as %q", *v)
	}
	if v := d.NullString(); v == nil || *v != s {
		t.Fatal("string differs")
	}
	if v := d.Strings(); len(v) != 3 || v[0] != "a" || v[1] != "" || v[2] != "c" {
		t.Fatalf("vector reads as %q", v)
	}
	if d.Err() != nil || d.Len() != 0 {
		t.Fatalf("err %v, %d bytes left", d.Err(), d.Len())
	}
}

func TestDecoderRefusesWhatCannotFit(t *testing.T) {
	for name, read := range map[string]func(*Decoder){
		"vector count beyond input": func(d *Decoder) { d.Strings() },
		"buffer beyond input":       func(d *Decoder) { d.Bytes() },
		"long in four bytes":        func(d *Decoder) { d.Long() },
	} {
		d := NewDecoder([]byte{0x7f, 0xff, 0xff, 0xff}, 0)
		read(&d)
		if d.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
		if d.Int() != 0 || d.Bytes() != nil {
			t.Errorf("%s: reads go on after a failure", name)
		}
	}
	d := NewDecoder(AppendBytes(nil, make([]byte, 11)), 10)
	if d.Bytes(); d.Err() == nil {
		t.Error("buffer above the limit accepted")
	}
	d = NewDecoder(AppendInt(nil, -2), 10)
	if d.Bytes(); d.Err() == nil {
		t.Error("negative length accepted")
	}
}

func TestBytesCannotGrowIntoTheInput(t *testing.T) {
	in := append(AppendBytes(nil, []byte("ab")), "cd"...)
	d := NewDecoder(in, 100)
	_ = append(d.Bytes(), 'X')
	if !bytes.HasSuffix(in, []byte("cd")) {
		t.Fatal("append to a decoded buffer overwrote the input")
	}
}

// A list of many names allocates its space in one step. Growing step by step would copy
// the names many times.
func TestManyStringsTakeTheirSpaceAtOnce(t *testing.T) {
	names := make([]string, 10*manyStrings)
	for i := range names {
		names[i] = "name-" + strings.Repeat("x", i%7)
	}
	var b []byte
	if got := testing.AllocsPerRun(10, func() { b = AppendStrings(nil, names) }); got != 1 {
		t.Errorf("%v allocations", got)
	}
	d := NewDecoder(b, 100)
	if got := d.Strings(); !slices.Equal(got, names) || d.Len() != 0 {
		t.Errorf("%d of %d came back", len(got), len(names))
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(AppendStrings(nil, []string{"a"}), []byte{5, 4, 3, 2, 1, 0})
	f.Fuzz(func(t *testing.T, in, script []byte) {
		d := NewDecoder(in, 1<<16)
		for _, s := range script {
			switch s % 7 {
			case 0:
				d.Bool()
			case 1:
				d.Int()
			case 2:
				d.Long()
			case 3:
				_ = d.String()
			case 4:
				d.Bytes()
			case 5:
				d.Strings()
			case 6:
				d.Count(8)
			}
		}
		if d.Len() > len(in) {
			t.Fatal("decoder grew")
		}
	})
}

// Where an int has 32 bits, the bytes that these counts need would wrap around to few.
func TestCountWhoseBytesWrapAroundIsRefused(t *testing.T) {
	for elementBytes, count := range map[int]int32{4: 1 << 30, 8: 1 << 29, 12: (1<<32 + 8) / 12} {
		d := NewDecoder(append(AppendInt(nil, count), make([]byte, 64)...), 0)
		if n := d.Count(elementBytes); n != 0 || d.Err() == nil {
			t.Errorf("%d elements of %d bytes in 64: count %d, error %v", count, elementBytes, n, d.Err())
		}
	}
}
