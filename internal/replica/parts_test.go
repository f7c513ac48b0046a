package replica

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestPartsOwnTheirFields: the fields of a part of the replica are changed only by the part's
// own methods, so that its reader finds in one file everything that can happen to it.
func TestPartsOwnTheirFields(t *testing.T) {
	parts := partTypes()
	if len(parts) < 5 {
		t.Fatalf("only %v are parts", parts)
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
				for _, at := range changes(f.Body, parts) {
					t.Errorf("%s changes a part of the replica: that is for a method of the part", files.Position(at))
				}
			}
		}
	}
}

// TestChangesOfPartsAreFound gives the test above what it must find.
func TestChangesOfPartsAreFound(t *testing.T) {
	const found, fine = 9, 4
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", `package replica
func (r *Replica) x() {
	r.role.epoch = 1
	r.full, r.role.reborn = true, false
	r.election.fruitless++
	r.role = role{}
	clear(r.leading.ended)
	delete(r.requests.conns, 7)
	r.requests.writes.push(waiting{})
	p := &r.trust.base
	r.touches.timeouts[7] = 1

	r.full = true
	*p = r.leading.last
	c := r.requests.conns[7]
	r.requests.drop()
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	body := file.Decls[0].(*ast.FuncDecl).Body
	if n := len(body.List); n != found+fine {
		t.Fatalf("%d statements", n)
	}
	if n := len(changes(body, partTypes())); n != found {
		t.Errorf("found %d of %d", n, found)
	}
}

// partTypes returns the fields of Replica that are parts: structs that only this package
// knows.
func partTypes() []string {
	var parts []string
	r := reflect.TypeFor[Replica]()
	for f := range r.Fields() {
		if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == r.PkgPath() && !token.IsExported(f.Type.Name()) {
			parts = append(parts, f.Name)
		}
	}
	return parts
}

// changers are the methods of queues that change a queue.
var changers = []string{"push", "pop", "drop"}

// changes returns where a function's body changes a field of a part from outside: by an
// assignment, by a builtin, by a queue's method, or by taking an address.
func changes(body ast.Node, parts []string) (at []token.Pos) {
	note := func(e ast.Expr) {
		if ofPart(e, parts) {
			at = append(at, e.Pos())
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				note(left)
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				note(n.X)
			}
		case *ast.CallExpr:
			switch called := n.Fun.(type) {
			case *ast.Ident:
				if (called.Name == "clear" || called.Name == "delete") && len(n.Args) > 0 {
					note(n.Args[0])
				}
			case *ast.SelectorExpr:
				if below, ok := called.X.(*ast.SelectorExpr); ok && slices.Contains(changers, called.Sel.Name) && ofPart(below.X, parts) {
					note(below)
				}
			}
		}
		return true
	})
	return at
}

// ofPart reports whether an expression names a part of r, or something below it.
func ofPart(e ast.Expr, parts []string) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name == "r" && slices.Contains(parts, e.Sel.Name)
		}
		return ofPart(e.X, parts)
	case *ast.IndexExpr:
		return ofPart(e.X, parts)
	case *ast.StarExpr:
		return ofPart(e.X, parts)
	case *ast.ParenExpr:
		return ofPart(e.X, parts)
	}
	return false
}
