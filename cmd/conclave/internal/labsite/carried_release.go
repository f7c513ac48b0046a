//go:build labcarried

package labsite

import _ "embed"

// The release puts these two files into built before it compiles the program.
var (
	//go:embed built/lab.wasm.gz
	carriedWasm []byte
	//go:embed built/wasm_exec.js
	carriedLoader []byte
)

var carried = Machines{Wasm: carriedWasm, Loader: carriedLoader}
