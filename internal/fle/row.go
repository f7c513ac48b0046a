package fle

// Row is a place in the table of handlers: what a server in one state does with the
// notification of a participant in another. Proofs count the rows that they have used.
type Row struct{ Own, From State }

// Rows returns all rows.
func Rows() []Row {
	var rows []Row
	for own := range states {
		for from := range states {
			rows = append(rows, Row{State(own), State(from)})
		}
	}
	return rows
}

// String names the row: "looking receives leading".
func (r Row) String() string { return r.Own.String() + " receives " + r.From.String() }
