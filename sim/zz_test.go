package sim

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"
)

func TestZZ(t *testing.T) {
	var m Mutant
	if m.UnmarshalText([]byte(os.Getenv("ZM"))) != nil {
		t.Skip()
	}
	seed, _ := strconv.Atoi(os.Getenv("ZS"))
	p := hunt(m, uint64(seed))
	if os.Getenv("ZN") != "" {
		p.Mutant = None
	}
	b, _ := json.Marshal(p)
	os.WriteFile("/tmp/wt-simwork/plan.json", b, 0o644)
}
