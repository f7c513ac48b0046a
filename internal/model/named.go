package model

// Named is a model with a small scope, which is part of the tests, and a full one.
type Named struct {
	Name, What  string
	Small, Full func() *Model
}

// Mutant is a known bug, with the scope in which it is searched for. It is put
// back around the machines of a model, without changing their code.
type Mutant struct {
	Name   string // of the mutant
	Model  string // whose scope it is
	Origin string // where it was met
	What   string // it does
	New    func() *Model
}

// Scopes names a model, of which build makes each scope.
func Scopes[S any](build func(S) *Model, name, what string, small, full S) Named {
	return Named{name, what, func() *Model { return build(small) }, func() *Model { return build(full) }}
}
