package shell

import (
	"fmt"
	"strings"
)

// dump returns data in hexadecimal, sixteen bytes a line, in zkCli.sh's format.
func dump(data []byte) string {
	const edge = "+--------+-------------------------------------------------+----------------+\n"
	var b strings.Builder
	b.WriteString("         +-------------------------------------------------+\n")
	b.WriteString("         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n" + edge)
	for at := 0; at < len(data); at += 16 {
		fmt.Fprintf(&b, "|%08x|", at)
		row := data[at:min(at+16, len(data))]
		shown := []byte(strings.Repeat(" ", 16))
		for i := range 16 {
			if i >= len(row) {
				b.WriteString("   ")
				continue
			}
			fmt.Fprintf(&b, " %02x", row[i])
			shown[i] = '.'
			if row[i] > ' ' && row[i] < 0x7f || row[i] == ' ' {
				shown[i] = row[i]
			}
		}
		b.WriteString(" |" + string(shown) + "|\n")
	}
	b.WriteString(edge)
	return b.String()
}
