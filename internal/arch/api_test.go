package arch

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
	"testing"
)

// unnamed are the public types that still come from an internal package, each with the
// reason.
var unnamed = map[string]string{
	"election/record.Record": "the machine of the record and its stores share it, and the machine is below them",
	"election/record.Next":   "as Record",

	"election/record.StateNominated": "an untyped text of Record",
	"election/record.StateReady":     "as StateNominated",
	"election/record.StateNotReady":  "as StateNominated",
}

// TestPublicPackagesNameNoInternalType: a program outside the module could neither name the
// parameters of such a function nor look up its results.
func TestPublicPackagesNameNoInternalType(t *testing.T) {
	named := map[string]bool{}
	for _, s := range sources(t) {
		if !s.isPublic() {
			continue
		}
		for _, f := range s.files {
			internal := internalImports(f)
			eachExported(f, func(name string, node ast.Node) {
				ast.Inspect(node, func(n ast.Node) bool {
					x, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					if from, ok := x.X.(*ast.Ident); ok && internal[from.Name] {
						named[s.dir+"."+name] = true
						if unnamed[s.dir+"."+name] == "" {
							t.Errorf("%v: %s names %s.%s, which is internal", s.set.Position(x.Pos()), name, from.Name, x.Sel.Name)
						}
					}
					return true
				})
			})
		}
	}
	for name := range unnamed {
		if !named[name] {
			t.Errorf("%s names nothing internal: take it out of the list", name)
		}
	}
}

// isPublic reports whether programs outside may import the package and rely on it
// (docs/stability.md).
func (s *source) isPublic() bool {
	for _, prefix := range []string{"client", "clock", "conclavetest", "election", "zk"} {
		if s.dir == prefix || strings.HasPrefix(s.dir, prefix+"/") {
			return !strings.Contains("/"+s.dir+"/", "/internal/")
		}
	}
	return false
}

// internalImports returns the names under which a file imports internal packages.
func internalImports(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range f.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !strings.Contains(target, "/internal/") {
			continue
		}
		name := path.Base(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	return names
}

// eachExported calls f with everything that the documentation shows of a file: signatures,
// exported fields, types of constants and variables.
func eachExported(file *ast.File, f func(name string, node ast.Node)) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv))) {
				f(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				exportedSpec(d.Tok, spec, f)
			}
		}
	}
}

func exportedSpec(kind token.Token, spec ast.Spec, f func(name string, node ast.Node)) {
	switch x := spec.(type) {
	case *ast.TypeSpec:
		if x.Name.IsExported() {
			exportedType(x.Name.Name, x.Type, f)
		}
	case *ast.ValueSpec:
		for i, name := range x.Names {
			switch {
			case !name.IsExported():
			case x.Type != nil:
				f(name.Name, x.Type)
			case i < len(x.Values):
				// A bare name has the type of what it names, while a call, such as a
				// conversion, names its own type.
				if _, bare := x.Values[i].(*ast.SelectorExpr); bare {
					f(name.Name, x.Values[i])
				}
			}
		}
	}
}

func exportedType(name string, of ast.Expr, f func(name string, node ast.Node)) {
	structure, ok := of.(*ast.StructType)
	if !ok {
		f(name, of)
		return
	}
	for _, field := range structure.Fields.List {
		visible := len(field.Names) == 0
		for _, n := range field.Names {
			visible = visible || n.IsExported()
		}
		if visible {
			f(name, field.Type)
		}
	}
}

// receiver returns the name of the type that has the method.
func receiver(fields *ast.FieldList) string {
	of := fields.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
