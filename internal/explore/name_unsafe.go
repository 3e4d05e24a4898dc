//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"
)

// name is a name for the words in *ptr.
type name struct {
	name string
	ptr  any
}

// Name names all words, locks and channels in the object at ptr by their fields. The names are for
// reports only, and cost nothing until a failure.
func (r *Run) Name(as string, ptr any) { r.names = append(r.names, name{as, ptr}) }

// resolve finds the words.
func (r *Run) resolve() map[any]string {
	out := map[any]string{}
	for _, n := range r.names {
		switch v := reflect.ValueOf(n.ptr); v.Kind() {
		case reflect.Chan:
			out[n.ptr] = n.name
		case reflect.Pointer:
			walk(out, n.name, v.Elem())
		}
	}
	return out
}

func walk(out map[any]string, path string, v reflect.Value) {
	t := v.Type()
	at := reflect.NewAt(t, unsafe.Pointer(v.UnsafeAddr()))
	if strings.HasSuffix(t.PkgPath(), "internal/xatomic") {
		if t.Kind() == reflect.Chan {
			at = at.Elem()
		}
		out[at.Interface()] = path
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" {
				walk(out, path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Array, reflect.Slice:
		for i := range min(v.Len(), 16) {
			walk(out, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	}
}
