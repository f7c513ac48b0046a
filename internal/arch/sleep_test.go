package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSleepsStandInBubbles: a test that sleeps on the real clock and expects something to
// have happened by then fails on a busy machine, or has checked nothing.
func TestSleepsStandInBubbles(t *testing.T) {
	set, packages, count := token.NewFileSet(), map[string][]*ast.File{}, 0
	eachText(t, func(name, text string) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		packages[path.Dir(name)] = append(packages[path.Dir(name)], file)
	})
	for _, files := range packages {
		b := bubblesOf(files)
		count += b.count
		for _, at := range b.refused() {
			t.Errorf("%v: outside of a bubble of synctest: wait for what is to come (awaittest.Until), look for what must not "+
				"(awaittest.Never), or say why real time has to pass (awaittest.RealTime)", set.Position(at))
		}
	}
	if count < 90 {
		t.Errorf("%d sleeps were found, where are the others?", count)
	}
}

// bubbles records what the declarations in the tests of a package name, and where they
// sleep. A declaration is a function, or a type with its methods. What is inside a bubble
// is left out.
type bubbles struct {
	names  map[string][]string    // what a declaration names
	sleeps map[string][]token.Pos // outside of bubbles
	wrong  []token.Pos            // calls of an inBubble that is not a bubble
	count  int                    // number of all sleeps
}

// entry matches the functions that a test process calls.
var entry = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example|init$)`)

func bubblesOf(files []*ast.File) *bubbles {
	b := &bubbles{names: map[string][]string{}, sleeps: map[string][]token.Pos{}}
	for _, file := range files {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				in := d.Name.Name
				if d.Recv != nil {
					in = receiver(d.Recv)
				}
				if d.Body != nil {
					b.look(d.Body, in, false)
				}
				if in == "inBubble" {
					b.wrong = append(b.wrong, b.calls(d)...)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						b.look(s.Type, s.Name.Name, false)
					case *ast.ValueSpec:
						b.look(s, s.Names[0].Name, false)
					}
				}
			}
		}
	}
	return b
}

// look records what a node of a declaration contains.
func (b *bubbles) look(node ast.Node, in string, bubble bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if !bubble && isBubble(n.Fun) {
				for _, argument := range n.Args {
					b.look(argument, in, true)
				}
				return false
			}
		case *ast.KeyValueExpr: // the key is the name of a field
			b.look(n.Value, in, bubble)
			return false
		case *ast.Field:
			if _, pointer := n.Type.(*ast.StarExpr); !pointer { // for a pointer, the value is made elsewhere
				b.look(n.Type, in, bubble)
			}
			return false
		case *ast.SelectorExpr:
			if is(n, "time", "Sleep") {
				if b.count++; !bubble {
					b.sleeps[in] = append(b.sleeps[in], n.Pos())
				}
			}
			b.look(n.X, in, bubble)
			if n.Sel.IsExported() { // otherwise it is a field or a method
				b.look(n.Sel, in, bubble)
			}
			return false
		case *ast.CommClause: // other things are waited for, too
			if alone, ok := n.Comm.(*ast.ExprStmt); ok {
				b.look(alone.X, in, bubble)
			} else if n.Comm != nil {
				b.look(n.Comm, in, bubble)
			}
			for _, s := range n.Body {
				b.look(s, in, bubble)
			}
			return false
		case *ast.ExprStmt: // <-time.After(d), with nothing else to wait for
			if receive, ok := n.X.(*ast.UnaryExpr); ok && receive.Op == token.ARROW && !bubble {
				if call, ok := receive.X.(*ast.CallExpr); ok && is(call.Fun, "time", "After") {
					b.sleeps[in] = append(b.sleeps[in], n.Pos())
				}
			}
		case *ast.Ident:
			if !bubble {
				b.names[in] = append(b.names[in], n.Name)
			}
		}
		return true
	})
}

// refused returns the sleeps that tests reach, except through a bubble.
func (b *bubbles) refused() []token.Pos {
	found := b.wrong
	seen := map[string]bool{}
	var reach func(declaration string)
	reach = func(declaration string) {
		if seen[declaration] {
			return
		}
		seen[declaration] = true
		found = append(found, b.sleeps[declaration]...)
		for _, name := range b.names[declaration] {
			reach(name)
		}
	}
	for declaration := range b.names {
		if entry.MatchString(declaration) {
			reach(declaration)
		}
	}
	slices.Sort(found)
	return found
}

// calls returns the places where an inBubble calls its function outside a bubble.
func (b *bubbles) calls(f *ast.FuncDecl) (found []token.Pos) {
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			if _, is := field.Type.(*ast.FuncType); is && slices.Contains(b.names["inBubble"], name.Name) {
				found = append(found, f.Pos())
			}
		}
	}
	return found
}

// isBubble reports whether a call runs its function in a bubble: synctest.Test, or
// inBubble, a name that packages may give to a wrapper of it.
func isBubble(f ast.Expr) bool {
	name, ok := f.(*ast.Ident)
	return is(f, "synctest", "Test") || is(f, "storm", "Through") || is(f, "storm", "Finds") || ok && name.Name == "inBubble"
}

// is reports whether an expression is the given name in the given package.
func is(e ast.Expr, from, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == from && s.Sel.Name == name
}

// TestEachSleepOutsideOfABubbleIsFound checks samples, each with the line that must be
// refused, or none.
func TestEachSleepOutsideOfABubbleIsFound(t *testing.T) {
	const in = "synctest.Test(t, func(t *testing.T) { "
	for text, refused := range map[string]int{
		"func TestA(t *testing.T) { time.Sleep(1) }":                                                                      1,
		"func TestA(t *testing.T) {\n<-time.After(1) }":                                                                   2,
		"func TestA(t *testing.T) { select { case <-time.After(1): case <-done: } }":                                      0,
		"func TestA(t *testing.T) { " + in + "time.Sleep(1) }) }":                                                         0,
		"func TestA(t *testing.T) { " + in + "time.Sleep(1) })\ntime.Sleep(1) }":                                          2,
		"func TestA(t *testing.T) { inBubble(t, func() { time.Sleep(1) }) }":                                              0,
		"func inBubble(t *testing.T, f func()) { " + in + "f() }) }":                                                      0,
		"func inBubble(t *testing.T, f func()) {\n" + in + "})\nf() }":                                                    1,
		"func TestA(t *testing.T) { outside(t, func() { time.Sleep(1) }) }":                                               1,
		"func TestA(t *testing.T) { a() }\nfunc a() { time.Sleep(1) }":                                                    2,
		"func TestA(t *testing.T) { " + in + "a() }) }\nfunc a() { time.Sleep(1) }":                                       0,
		"func TestA(t *testing.T) { " + in + "a() }); a() }\nfunc a() { time.Sleep(1) }":                                  2,
		"func TestA(t *testing.T) { b() }\nfunc b() { a() }\nfunc a() { time.Sleep(1) }":                                  3,
		"func TestA(t *testing.T) { " + in + "(&a{}).b() }) }\nfunc (a *a) b() { sleep() }":                               0,
		"func TestA(t *testing.T) { use(a{}) }\ntype a struct{}\nfunc (a) B() { time.Sleep(1) }":                          3,
		"func TestA(t *testing.T) { use(a{}) }\ntype a struct{ b }\ntype b struct{}\nfunc (b) B() { time.Sleep(1) }":      4,
		"func TestA(t *testing.T) { " + in + "use(a{}) }) }\ntype a struct{}\nfunc (a) B() { time.Sleep(1) }":             0,
		"func TestMain(m *testing.M) { a() }\nfunc a() { time.Sleep(1) }":                                                 2,
		"func init() { a() }\nfunc a() { time.Sleep(1) }":                                                                 2,
		"func TestA(t *testing.T) { b() }\nvar b = func() { a() }\nfunc a() { time.Sleep(1) }":                            3,
		"func FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T) { time.Sleep(1) }) }":                                       1,
		"func TestA(t *testing.T) { for _, one := range all { t.Run(one, func(t *testing.T) { defer time.Sleep(1) }) } }": 1,
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "", "package a; "+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		line := 0
		for _, at := range bubblesOf([]*ast.File{file}).refused() {
			line = set.Position(at).Line
		}
		if line != refused {
			t.Errorf("%s\nline %d is refused, expected %d", text, line, refused)
		}
	}
}
