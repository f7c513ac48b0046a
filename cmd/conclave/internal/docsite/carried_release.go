//go:build labcarried

package docsite

import _ "embed"

// The release puts it into built before it compiles the program.
//
//go:embed built/site.zip
var carried []byte
