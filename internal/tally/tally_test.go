package tally

import (
	"fmt"
	"strings"
	"testing"
)

func TestANumberIsInItsBucket(t *testing.T) {
	for _, v := range []int64{0, 1, 3, 4, 5, 7, 8, 1000, 123456789, 1 << 39} {
		b := BucketOf(v)
		if low, high := BucketStart(b), BucketStart(b+1); v < low || v >= high || high-low > max(1, low/4) {
			t.Errorf("%d is in [%d, %d)", v, low, high)
		}
	}
	if BucketOf(-5) != 0 || BucketOf(1<<62) != Buckets-1 {
		t.Error("what is beyond the ends is not at the ends")
	}
}

func TestDistributionsAddUp(t *testing.T) {
	var a, b, both Distribution
	a.Note(3, 2)
	b.Note(100, 1)
	both.Note(3, 2)
	both.Note(100, 1)
	if a.Add(&b); a != both || a.Count != 3 || a.Sum != 106 {
		t.Errorf("%d, %d", a.Count, a.Sum)
	}
}

func TestDistributionsAreToldAndReadAgain(t *testing.T) {
	var d Distribution
	for _, v := range []int64{0, 3, 3, 90, 5000, 1 << 50} {
		d.Note(v, 2)
	}
	read, err := ParseDistribution(d.Text())
	if read.Sum = d.Sum; err != nil || read != d {
		t.Errorf("%s: %v, %v", d.Text(), read, err)
	}
	if none, err := ParseDistribution((&Distribution{}).Text()); err != nil || none != (Distribution{}) {
		t.Errorf("none: %v, %v", none, err)
	}
	for _, text := range []string{"", "4", "4:", "x:1", "4:-1", "4:1,", "4:9223372036854775807,5:1"} {
		if got, err := ParseDistribution(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// Numbers seen between two snapshots are separated from earlier ones.
func TestQuantilesAreOfWhatIsLeft(t *testing.T) {
	var earlier, now Distribution
	earlier.Note(1000, 100)
	now = earlier
	now.Note(2, 98)
	now.Note(60, 2)
	now.Sub(&earlier)
	if p50, p99 := now.Quantile(0.5), now.Quantile(0.99); now.Count != 100 || now.Sum != 98*2+2*60 || p50 != 2 || p99 < 56 || p99 > 64 {
		t.Errorf("%d of them: %v, %v", now.Count, p50, p99)
	}
	if none := (&Distribution{}).Quantile(0.5); none == none {
		t.Errorf("of none: %v", none)
	}
}

// FuzzParseDistribution: no text from a server makes the parser panic, and what it accepts is
// written back unchanged.
func FuzzParseDistribution(f *testing.F) {
	f.Add("-")
	f.Add("4:12,1000:3")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ParseDistribution(text)
		if err != nil {
			return
		}
		if again, err := ParseDistribution(d.Text()); err != nil || again != d {
			t.Errorf("%q: %v, %v", text, again, err)
		}
	})
}

func TestNamesBeyondTheLimitAreCountedTogether(t *testing.T) {
	var n Names
	for i := range NamesMax + 5 {
		n.Note(fmt.Sprint("n", i), 1, 10)
	}
	n.Note("n0", 1, 10)
	all := n.All()
	if len(all) != NamesMax+1 || all[Rest] != (Named{5, 50}) || all["n0"] != (Named{2, 20}) {
		t.Errorf("%d names, %v, %v", len(all), all[Rest], all["n0"])
	}
}

// Clients choose the names, and a thousand of them are kept for ever.
func TestLongNamesAreCountedTogether(t *testing.T) {
	longest := strings.Repeat("n", NameBytesMax)
	var n Names
	for _, name := range []string{longest, longest + "1", longest + "2"} {
		n.Note(name, 1, 10)
	}
	if all := n.All(); len(all) != 2 || all[Rest] != (Named{2, 20}) || all[longest] != (Named{1, 10}) {
		t.Errorf("%v", all)
	}
	if got := Namespace("/" + longest + "/a"); got != longest {
		t.Errorf("%q", got)
	}
	if got := Namespace("/" + longest + "1/a"); got != Rest {
		t.Errorf("%q", got)
	}
}

// Names become labels, which must be UTF-8.
func TestNamesThatAreNotUTF8AreCountedTogether(t *testing.T) {
	var n Names
	n.Note("a\xff", 1, 10)
	n.Note("ä", 1, 10)
	if all := n.All(); len(all) != 2 || all[Rest].Count != 1 || all["ä"].Count != 1 {
		t.Errorf("%v", all)
	}
	if got := Namespace("/\xff/a"); got != Rest {
		t.Errorf("%q", got)
	}
}

func TestTheNamespaceIsTheFirstName(t *testing.T) {
	for path, want := range map[string]string{"/": "", "": "", "/a": "a", "/a/b/c": "a", "no": ""} {
		if got := Namespace(path); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}
