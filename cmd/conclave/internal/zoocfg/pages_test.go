package zoocfg

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// propertiesBlock matches an excerpt of a zoo.cfg on a page.
var propertiesBlock = regexp.MustCompile("(?s)```properties\n(.*?)```")

// Settings that a block leaves to the rest of the file.
const (
	restDir      = "dataDir=/data\n"
	restEnsemble = restDir + "clientPort=2181\ninitLimit=10\nsyncLimit=5\nserver.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n"
	restMetrics  = restEnsemble + "metricsProvider.className=" + prometheusProvider + "\n"
)

// TestConfigurationOnThePagesIsTaken: an operator who copies a block gets no error and no
// remark.
func TestConfigurationOnThePagesIsTaken(t *testing.T) {
	files, err := filepath.Glob("../../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, file := range files {
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range propertiesBlock.FindAllStringSubmatch(string(page), -1) {
			blocks++
			rest := restEnsemble
			switch text := block[1]; {
			case strings.Contains(text, "dataDir="):
				rest = ""
			case strings.Contains(text, ";2181"):
				rest = restDir
			case strings.HasPrefix(text, "metricsProvider.https"):
				rest = restMetrics
			}
			entries, err := Parse(filepath.Base(file), []byte(block[1]+rest))
			if err != nil {
				t.Errorf("%s: %v\n%s", file, err, block[1])
				continue
			}
			c, err := Read(entries, disk(t, map[string]string{"/data/myid": "1\n", "/var/lib/conclave/myid": "1\n",
				"/etc/conclave/backup-recipients.txt": "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p\n"}))
			if err != nil {
				t.Errorf("%s: %v\n%s", file, err, block[1])
			} else if len(c.Remarks) > 0 {
				t.Errorf("%s: %q\n%s", file, c.Remarks, block[1])
			}
			for _, e := range entries {
				if strings.Contains(e.Value, "#") {
					t.Errorf("%s: %s: a comment behind a value is a part of it", file, e.Key)
				}
			}
		}
	}
	if blocks < 7 {
		t.Errorf("%d blocks of properties", blocks)
	}
}

// TestSettingsOfPackagesAndChartHaveAnEffect: the settings in the chart's values and the
// packages' zoo.cfg, including those suggested in comments, are all accepted together
// without a remark.
func TestSettingsOfPackagesAndChartHaveAnEffect(t *testing.T) {
	values := deployed(t, "chart/conclave/values.yaml")
	_, config, _ := strings.Cut(values, "\nconfig:\n")
	config, _, _ = strings.Cut(config, "\n\n")
	for _, one := range []struct {
		name, text, rest string
		line             *regexp.Regexp
		want             string
	}{
		{"values.yaml", config, restEnsemble, regexp.MustCompile(`(?m)^  (?:# )?([A-Za-z0-9.]+): (\S+)$`), "db.autocreate"},
		{"zoo.cfg", deployed(t, "packages/zoo.cfg"), "", regexp.MustCompile(`(?m)^#?([A-Za-z0-9.]+)=(\S+)$`), "server.3"},
	} {
		text := ""
		for _, m := range one.line.FindAllStringSubmatch(one.text, -1) {
			if !strings.Contains(one.rest, m[1]+"=") {
				text += m[1] + "=" + m[2] + "\n"
			}
		}
		entries, err := Parse(one.name, []byte(text+one.rest))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Read(entries, disk(t, map[string]string{"/data/myid": "1\n", "/var/lib/conclave/myid": "1\n"}))
		if err != nil || len(c.Remarks) > 0 || !strings.Contains(text, one.want+"=") {
			t.Errorf("%s: %v, %q, and %s in\n%s", one.name, err, c.Remarks, one.want, text)
		}
	}
}

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
