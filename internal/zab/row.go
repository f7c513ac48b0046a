package zab

// Row is a place in the tables of table.go: what a leader, an observer master or a learner does
// with one kind of message at one stage of its link. Proofs count the rows that they have used.
type Row struct {
	Table RowTable
	Stage uint8
	Kind  Kind
}

// RowTable says whose table a row is in.
type RowTable uint8

// The tables.
const (
	RowLeader RowTable = iota
	RowMaster
	RowLearner
)

// The names of stages, in the order of their numbers.
var (
	rowLinkStages    = [linkStages]string{"hello", "greeted", "asked", "agreed", "reading", "syncing", "synced", "serving"}
	rowLearnerStages = [learnerStages]string{
		"connecting", "greeting", "promising", "agreed", "syncing", "storing", "ready", "serving",
	}
)

// Rows returns the rows that have a handler, those of the leader first.
func Rows() []Row {
	var rows []Row
	for of, table := range []*[linkStages][kinds]leaderHandler{RowLeader: &leaderTable, RowMaster: &masterTable} {
		for stage := range table {
			for kind, h := range table[stage] {
				if h != nil {
					rows = append(rows, Row{Table: RowTable(of), Stage: uint8(stage), Kind: Kind(kind)})
				}
			}
		}
	}
	for stage := range learnerTable {
		for kind, h := range learnerTable[stage] {
			if h != nil {
				rows = append(rows, Row{Table: RowLearner, Stage: uint8(stage), Kind: Kind(kind)})
			}
		}
	}
	return rows
}

// String names the row: "leader asked ACKEPOCH".
func (r Row) String() string {
	switch r.Table {
	case RowLeader:
		return "leader " + rowLinkStages[r.Stage] + " " + r.Kind.String()
	case RowMaster:
		return "master " + rowLinkStages[r.Stage] + " " + r.Kind.String()
	}
	return "learner " + rowLearnerStages[r.Stage] + " " + r.Kind.String()
}

// Reasons returns all reasons for which a role may end.
func Reasons() []Reason {
	var all []Reason
	for r := ReasonNone + 1; r < reasons; r++ {
		all = append(all, r)
	}
	return all
}
