package arch

import (
	"go/ast"
	"testing"
)

// TestMachinesTakeTheTimeFirst: the Step method of every machine takes the time, then the
// event, so all machines read alike.
func TestMachinesTakeTheTimeFirst(t *testing.T) {
	steps := 0
	for _, s := range sources(t) {
		if !s.onMap() || layout[s.dir].kind != machine {
			continue
		}
		for _, file := range s.files {
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv == nil || f.Name.Name != "Step" {
					continue
				}
				steps++
				if !takesTimeFirst(f.Type) {
					t.Errorf("%v: a machine's Step takes the time first: nowMs, or now where it has wall-clock time too", s.set.Position(f.Pos()))
				}
			}
		}
	}
	if steps < 8 {
		t.Errorf("only %d machines have a Step", steps)
	}
}

func takesTimeFirst(f *ast.FuncType) bool {
	if len(f.Params.List) < 2 || len(f.Params.List[0].Names) != 1 {
		return false
	}
	first := f.Params.List[0]
	kind, ok := first.Type.(*ast.Ident)
	return ok && (first.Names[0].Name == "nowMs" && kind.Name == "int64" || first.Names[0].Name == "now" && kind.Name == "Now")
}
