package model

import (
	"reflect"
	"unsafe"
)

// Field returns a private field of the struct that a pointer points at. It is
// for mutants, which put a bug back into a machine that has no hooks for that.
func Field(pointer any, name string) reflect.Value {
	f := reflect.ValueOf(pointer).Elem().FieldByName(name)
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// SetField sets such a field.
func SetField(pointer any, name string, value any) { Field(pointer, name).Set(reflect.ValueOf(value)) }
