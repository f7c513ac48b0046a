package pathset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/zk"
)

func TestSetEqualsItsNaiveModel(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	var s Map[string]
	model := map[string]bool{}
	draw := func() string {
		path := ""
		for range random.IntN(6) {
			path += "/" + []string{"a", "b", "aa", "ab", "a.b"}[random.IntN(5)]
		}
		if path == "" {
			path = "/"
		}
		return path
	}
	hits := 0
	for step := range 20_000 {
		path := draw()
		switch random.IntN(4) {
		case 0:
			if s.Add(path, path) == model[path] {
				t.Fatalf("step %d: %s is added, there was %t", step, path, model[path])
			}
			model[path] = true
		case 1:
			if s.Remove(path) != model[path] {
				t.Fatalf("step %d: %s is removed, there was %t", step, path, model[path])
			}
			delete(model, path)
		default:
			var want []string
			for at := path; ; at = zk.ParentPath(at) {
				if model[at] {
					want = append(want, at)
				}
				if at == "/" {
					break
				}
			}
			if got := s.Above(path, []string{"kept"}); !slices.Equal(got[1:], want) || got[0] != "kept" {
				t.Fatalf("step %d: above %s are %v, want %v", step, path, got, want)
			}
			hits += len(want)
		}
		if s.Len() != len(model) {
			t.Fatalf("step %d: %d paths, model has %d", step, s.Len(), len(model))
		}
	}
	if hits < 1000 {
		t.Errorf("%d paths were found", hits)
	}
}

// The cost of a deep path is linear in its length: twice the depth costs twice as much, not four
// times.
func BenchmarkAbove(b *testing.B) {
	for _, depth := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			var s Map[string]
			for i := range 20 {
				path := "/q" + strings.Repeat("x", i)
				s.Add(path, path)
			}
			path := strings.Repeat("/a", depth)
			for b.Loop() {
				s.Above(path, nil)
			}
		})
	}
}
