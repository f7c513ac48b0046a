package algotest_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/conclave-project/conclave/algo"
	"github.com/conclave-project/conclave/algo/algotest"
)

// plot draws the number of messages against the number of members, both axes logarithmic.
func plot(counts [][]float64) []byte {
	const width, height, left, top, right, bottom = 760, 420, 60, 20, 230, 50
	x := func(n float64) float64 {
		return left + (width-left-right)*math.Log(n/3)/math.Log(100.0/3)
	}
	y := func(m float64) float64 {
		return height - bottom - (height-top-bottom)*math.Log10(max(m, 1))/4.1
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="13">`+"\n",
		width, height)
	fmt.Fprintf(&b, "  <title>Messages over members, counted in the simulator</title>\n"+
		"  <rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width, height)
	for _, m := range []float64{1, 10, 100, 1000, 10000} {
		fmt.Fprintf(&b, "  <path d=\"M%d %.1fH%d\" stroke=\"#dde3ec\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#4a5568\">%.0f</text>\n",
			left, y(m), width-right, left-8, y(m)+4, m)
	}
	for _, n := range sizes {
		fmt.Fprintf(&b, "  <path d=\"M%.1f %dV%d\" stroke=\"#eef1f6\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#4a5568\">%d</text>\n",
			x(float64(n)), top, height-bottom, x(float64(n)), height-bottom+20, n)
	}
	fmt.Fprintf(&b, "  <text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#1c2536\">members</text>\n",
		(left+width-right)/2, height-8)
	for i, m := range measures {
		var points []string
		for j, n := range sizes {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(n)), y(counts[i][j])))
			fmt.Fprintf(&b, "  <circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x(float64(n)), y(counts[i][j]), m.color)
		}
		fmt.Fprintf(&b, "  <polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\"%s/>\n",
			strings.Join(points, " "), m.color, m.dash)
		fmt.Fprintf(&b, "  <path d=\"M%d %dh18\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"%d\" y=\"%d\" fill=\"#1c2536\">%s</text>\n",
			width-right+20, top+20+i*24, m.color, width-right+46, top+24+i*24, m.title)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// TestPicturesShowWhatHappens draws a story of each algorithm.
func TestPicturesShowWhatHappens(t *testing.T) {
	ids := algotest.IDs(3)
	for name, story := range map[string]func(w *algotest.World){
		"raft":   func(w *algotest.World) { partitionLeader(w, "a") },
		"bully":  func(w *algotest.World) { partitionLeader(w, "c") },
		"ring":   func(w *algotest.World) { partitionLeader(w, "c") },
		"lowest": func(w *algotest.World) { partitionLeader(w, "a") },
	} {
		w := algotest.New(1, maker(t, name)(ids), ids)
		d := &drawing{lanes: ids}
		for _, id := range ids {
			w.Start(id)
		}
		w.Trace = d.add
		story(w)
		if len(w.Wrong) > 0 {
			t.Errorf("%s: %v", name, w.Wrong)
		}
		golden(t, "../../docs/pictures/algorithms-"+name+".svg", func([]byte) []byte {
			return d.svg("A leader is partitioned: " + name)
		})
	}
}

// partitionLeader elects one of three members, partitions it until the others have a
// leader, and heals the partition.
func partitionLeader(w *algotest.World, leader algo.ID) {
	w.Do(leader, algo.Campaign{})
	w.Run(2 * leaseMs)
	for _, id := range algotest.IDs(3) {
		w.Do(id, algo.Campaign{})
	}
	w.Run(100)
	for _, id := range algotest.IDs(3) {
		if id != leader {
			w.Cut(leader, id)
			w.Cut(id, leader)
		}
	}
	w.Run(3*leaseMs + 450)
	w.Heal()
	w.Run(leaseMs + 300)
}

// drawing is a picture with one lane for each member; time runs downwards.
type drawing struct {
	lanes   []algo.ID
	records []algotest.Record
}

// add keeps records that are worth showing.
func (d *drawing) add(r algotest.Record) {
	switch {
	case r.To != "" && (algotest.IsHeartbeat(r.Type) || r.Type == algo.Passed):
	case r.To == "" && !strings.HasPrefix(r.Text, "LEAD") && !strings.HasPrefix(r.Text, "LOST"):
	default:
		d.records = append(d.records, r)
	}
}

const (
	laneWidth = 230
	laneLeft  = 120
	rowHeight = 17
)

func (d *drawing) x(id algo.ID) int { return laneLeft + slices.Index(d.lanes, id)*laneWidth }

// rows assigns a height to each time at which something happens, with a gap where much time
// passes.
func (d *drawing) rows() (map[int64]int, int) {
	var times []int64
	for _, r := range d.records {
		times = append(times, r.AtMs)
		if r.ArrivesMs > 0 {
			times = append(times, r.ArrivesMs)
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	heights := make(map[int64]int)
	height := 60
	for i, ms := range times {
		if i > 0 {
			height += rowHeight
			if ms-times[i-1] > 20 {
				height += rowHeight
			}
		}
		heights[ms] = height
	}
	return heights, height + 40
}

func (d *drawing) svg(title string) []byte {
	heights, height := d.rows()
	width := laneLeft + (len(d.lanes)-1)*laneWidth + 130
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="11">`+"\n",
		width, height)
	fmt.Fprintf(&b, "  <title>%s</title>\n  <rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", title, width, height)
	b.WriteString("  <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">" +
		"<path d=\"M0 0 8 4 0 8z\" fill=\"#33415c\"/></marker></defs>\n")
	for _, id := range d.lanes {
		fmt.Fprintf(&b, "  <path d=\"M%d 40V%d\" stroke=\"#c9d1de\"/><text x=\"%d\" y=\"28\" text-anchor=\"middle\" font-size=\"15\" font-weight=\"600\" fill=\"#1c2536\">%s</text>\n",
			d.x(id), height-20, d.x(id), id)
	}
	d.drawLeaders(&b, heights, height)
	for ms, y := range ordered(heights) {
		fmt.Fprintf(&b, "  <text x=\"50\" y=\"%d\" text-anchor=\"end\" fill=\"#6b7688\">%d ms</text>\n", y+4, ms)
	}
	for _, r := range d.records {
		if r.To != "" {
			d.drawMessage(&b, r, heights)
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// ordered iterates over the rows from top to bottom.
func ordered(heights map[int64]int) func(func(int64, int) bool) {
	return func(yield func(int64, int) bool) {
		var times []int64
		for ms := range heights {
			times = append(times, ms)
		}
		slices.Sort(times)
		for _, ms := range times {
			if !yield(ms, heights[ms]) {
				return
			}
		}
	}
}

// drawLeaders draws a bar for each time in which a member leads.
func (d *drawing) drawLeaders(b *strings.Builder, heights map[int64]int, height int) {
	since := make(map[algo.ID]int)
	bar := func(id algo.ID, end int) {
		fmt.Fprintf(b, "  <rect x=\"%d\" y=\"%d\" width=\"14\" height=\"%d\" rx=\"3\" fill=\"#bfe3d3\" stroke=\"#1b7f5c\"/>\n",
			d.x(id)-7, since[id], max(6, end-since[id]))
		fmt.Fprintf(b, "  <text x=\"%d\" y=\"%d\" fill=\"#1b7f5c\" font-weight=\"600\">leads</text>\n", d.x(id)+12, since[id]+14)
		delete(since, id)
	}
	for _, r := range d.records {
		if strings.HasPrefix(r.Text, "LEAD") {
			since[r.Member] = heights[r.AtMs]
		} else if _, leads := since[r.Member]; leads && strings.HasPrefix(r.Text, "LOST") {
			bar(r.Member, heights[r.AtMs])
		}
	}
	for _, id := range d.lanes {
		if _, leads := since[id]; leads {
			bar(id, height-20)
		}
	}
}

// drawMessage draws an arrow. A lost message ends half way in a cross.
func (d *drawing) drawMessage(b *strings.Builder, r algotest.Record, heights map[int64]int) {
	x1, y1, x2 := d.x(r.Member), heights[r.AtMs], d.x(r.To)
	label, _, _ := strings.Cut(r.Text, " ")
	if strings.Contains(r.Text, " refused") {
		label += " refused"
	} else if strings.Contains(r.Text, " granted") {
		label += " granted"
	}
	if r.ArrivesMs == 0 {
		x2 = x1 + (x2-x1)/3
		fmt.Fprintf(b, "  <path d=\"M%d %dL%d %d\" stroke=\"#b3261e\" stroke-dasharray=\"3 3\"/><text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#b3261e\">× %s</text>\n",
			x1, y1, x2, y1, x2, y1-3, label)
		return
	}
	y2 := heights[r.ArrivesMs]
	at := 0.45 // of two messages sent together, the longer arrow has its label past the middle lane
	if x2 < x1 {
		at = 0.6
	}
	if x2-x1 > laneWidth {
		at = 0.75
	} else if x1-x2 > laneWidth {
		at = 0.25
	}
	fmt.Fprintf(b, "  <path d=\"M%d %dL%d %d\" stroke=\"#33415c\" marker-end=\"url(#tip)\"/><text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#1c2536\">%s</text>\n",
		x1, y1, x2, y2, float64(x1)+at*float64(x2-x1), float64(y1)+at*float64(y2-y1)-3, label)
}
