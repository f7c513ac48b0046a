package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

//go:embed assets
var assets embed.FS

type options struct {
	root, out, version string
	lab                string // directory with the laboratory, which is copied; "" for none
	runs               bool   // pages show runs of the laboratory
}

// page is one page of the site.
type page struct {
	source string // relative to the root of the project
	target string // relative to the directory of the version
	title  string
	zh     bool
	doc    ast.Node
	text   []byte
	ids    map[string]bool // its anchors
	labs   []string        // runs of the laboratory that it shows
	menu   bool
}

// found is a heading with the text below it, for the search.
type found struct {
	Page    string `json:"p"` // target of the page
	ID      string `json:"i,omitempty"`
	Title   string `json:"t"` // of the page
	Heading string `json:"h"`
	Text    string `json:"x"`
}

// repository is where links to files that are not pages lead.
const repository = "https://github.com/conclave-project/conclave/blob/main/"

// labLine matches a line of a document that shows a run of the laboratory.
var labLine = regexp.MustCompile(`(?m)^<!-- lab: (\S+) -->$`)

// anchorTag matches an explicit anchor in a document.
var anchorTag = regexp.MustCompile(`<a id="([^"]+)">`)

// The documents are the project's own, so HTML in them is kept.
func markdown(more ...goldmark.Extender) goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(append(more, extension.GFM)...), goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))
}

// A line end in Chinese text is no blank. This option also removes the blank before a link
// or code at the start of a line, so English has a renderer of its own.
var english, chinese = markdown(), markdown(extension.NewCJK(extension.WithEastAsianLineBreaks(extension.EastAsianLineBreaksCSS3Draft)))

// build writes the site, and returns the number of pages.
func build(o options) (int, error) {
	pages, err := read(o.root)
	if err != nil {
		return 0, err
	}
	dir := filepath.Join(o.out, o.version)
	if err := os.RemoveAll(dir); err != nil {
		return 0, err
	}
	var problems []error
	var search []found
	images := map[string]bool{}
	for _, source := range slices.Sorted(maps.Keys(pages)) { // sorted, so two builds yield the same bytes
		p := pages[source]
		problems = append(problems, p.relink(o.root, pages, images)...)
		search = append(search, p.search()...)
		if err := p.write(dir, o, pages); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(problems...); err != nil {
		return 0, err
	}
	for name := range images {
		if err := copyFile(filepath.Join(o.root, name), filepath.Join(dir, name)); err != nil {
			return 0, err
		}
	}
	index, err := json.Marshal(search)
	if err != nil {
		return 0, err
	}
	// This is a script instead of JSON that is fetched, so it also works from a directory.
	if err := write(filepath.Join(dir, "search.js"), append(append([]byte("window.searchIndex = "), index...), ";\n"...)); err != nil {
		return 0, err
	}
	for _, name := range []string{"site.css", "site.js", "icon.svg"} {
		content, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return 0, err
		}
		if err := write(filepath.Join(dir, name), content); err != nil {
			return 0, err
		}
	}
	if o.lab != "" {
		if err := os.CopyFS(filepath.Join(dir, "lab"), os.DirFS(o.lab)); err != nil {
			return 0, err
		}
	}
	return len(pages), versions(o.out, o.version)
}

// read reads all pages, by source.
func read(root string) (map[string]*page, error) {
	pages := map[string]*page{}
	add := func(source string, inMenu bool) error {
		content, err := os.ReadFile(filepath.Join(root, source))
		if err != nil {
			return err
		}
		p := &page{source: source, target: targetOf(source), zh: strings.Contains(source, "zh-CN"), ids: map[string]bool{}, menu: inMenu}
		p.text = labLine.ReplaceAllFunc(content, func(line []byte) []byte {
			p.labs = append(p.labs, string(labLine.FindSubmatch(line)[1]))
			return fmt.Appendf(nil, "LABORATORY-%d", len(p.labs)-1)
		})
		for _, m := range anchorTag.FindAllSubmatch(content, -1) {
			p.ids[string(m[1])] = true
		}
		context := parser.NewContext(parser.WithIDs(&anchors{p.ids, map[string]int{}}))
		p.doc = english.Parser().Parse(text.NewReader(p.text), parser.WithContext(context))
		for n := p.doc.FirstChild(); n != nil && p.title == ""; n = n.NextSibling() {
			if h, ok := n.(*ast.Heading); ok && h.Level == 1 {
				p.title = textOf(h, p.text)
			}
		}
		if p.title == "" {
			return fmt.Errorf("%s has no title", source)
		}
		pages[source] = p
		return nil
	}
	for _, s := range menu {
		for _, source := range s.pages {
			if err := add(source, true); err != nil {
				return nil, err
			}
		}
	}
	for _, pattern := range beside {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			source, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			if err := add(filepath.ToSlash(source), false); err != nil {
				return nil, err
			}
		}
	}
	return pages, nil
}

// targetOf returns the file of a page: README.md is the first page of its directory.
func targetOf(source string) string {
	source = strings.TrimSuffix(source, ".md")
	dir, name := path.Split(source)
	switch {
	case source == "README.zh-CN":
		return "zh-CN.html"
	case name == "README":
		return dir + "index.html"
	}
	return source + ".html"
}

// anchors gives headings the same names as GitHub.
type anchors struct {
	ids    map[string]bool
	counts map[string]int
}

// Generate implements parser.IDs.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(string(value))) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127 && !strings.ContainsRune("，。：；！？、（）“”‘’《》…—", r):
			b.WriteRune(r)
		}
	}
	id := b.String()
	n := a.counts[id]
	a.counts[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	a.ids[id] = true
	return []byte(id)
}

// Put implements parser.IDs.
func (a *anchors) Put(value []byte) { a.ids[string(value)] = true }

// relink turns links to sources into links to pages, and records the pictures that a page
// shows.
func (p *page) relink(root string, pages map[string]*page, images map[string]bool) (problems []error) {
	_ = ast.Walk(p.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			to, err := p.link(string(n.Destination), root, pages)
			if err != nil {
				problems = append(problems, err)
			}
			n.Destination = []byte(to)
		case *ast.Image:
			name := path.Join(path.Dir(p.source), string(n.Destination))
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				problems = append(problems, fmt.Errorf("%s: picture %s: %w", p.source, n.Destination, err))
			}
			images[name] = true
			n.Destination = []byte(relative(p.target, name))
		}
		return ast.WalkContinue, nil
	})
	return problems
}

// link returns the target of a link of the page in the site.
func (p *page) link(to, root string, pages map[string]*page) (string, error) {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return to, nil
	}
	name, anchor, anchored := strings.Cut(to, "#")
	source := p.source
	if name != "" {
		source = path.Join(path.Dir(p.source), name)
	}
	q := pages[source]
	if q == nil {
		q = pages[path.Join(source, "README.md")]
	}
	if q == nil {
		if _, err := os.Stat(filepath.Join(root, source)); err != nil {
			return to, fmt.Errorf("%s links to %s, which is not there", p.source, to)
		}
		return repository + source, nil
	}
	if anchored && !q.ids[anchor] {
		return to, fmt.Errorf("%s links to %s: %s has no such heading", p.source, to, q.source)
	}
	link := relative(p.target, q.target)
	if q == p {
		link = ""
	}
	if anchored {
		link += "#" + anchor
	}
	return link, nil
}

// relative returns the relative path from one page to another file.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// search returns the search entries of a page.
func (p *page) search() (all []found) {
	current := found{Page: p.target, Title: p.title, Heading: p.title}
	var texts []string
	end := func() {
		current.Text = strings.Join(strings.Fields(strings.Join(texts, " ")), " ")
		all = append(all, current)
		texts = nil
	}
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			if h.Level > 1 {
				end()
				id, _ := h.AttributeString("id")
				name, _ := id.([]byte)
				current = found{Page: p.target, Title: p.title, ID: string(name), Heading: textOf(h, p.text)}
			}
			continue
		}
		texts = append(texts, textOf(n, p.text))
	}
	end()
	return all
}

// textOf returns the text of a node and everything below it.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			lines := n.Lines()
			for i := range lines.Len() {
				line := lines.At(i)
				b.Write(line.Value(source))
			}
		}
		if n.Type() == ast.TypeBlock && b.Len() > 0 {
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// entry is an entry of the menu.
type entry struct {
	Title, Link string
	Here        bool
}

type group struct {
	Title   string
	Entries []entry
	Open    bool
}

var layout = template.Must(template.New("page").ParseFS(assets, "assets/page.html"))

// write renders the page.
func (p *page) write(dir string, o options, pages map[string]*page) error {
	var body bytes.Buffer
	renderer := english.Renderer()
	if p.zh {
		renderer = chinese.Renderer()
	}
	if err := renderer.Render(&body, p.text, p.doc); err != nil {
		return fmt.Errorf("%s: %w", p.source, err)
	}
	content := body.String()
	for i, run := range p.labs {
		show := ""
		if o.runs {
			at := template.HTMLEscapeString(relative(p.target, "lab/index.html") + "#" + run)
			show = fmt.Sprintf(`<figure class="lab"><iframe src="%s" title="%s" loading="lazy"></iframe><figcaption><a href="%[1]s">%[2]s</a></figcaption></figure>`,
				at, map[bool]string{false: "This run in the laboratory", true: "在实验室中打开本次运行"}[p.zh])
		}
		content = strings.Replace(content, fmt.Sprintf("<p>LABORATORY-%d</p>", i), show, 1)
	}
	content = tables.Replace(content)
	var groups []group
	for _, s := range menu {
		g := group{Title: s.title}
		if p.zh {
			g.Title = s.titleZh
		}
		for _, source := range s.pages {
			q := pages[source]
			g.Entries = append(g.Entries, entry{q.title, relative(p.target, q.target), q == p})
			g.Open = g.Open || q == p
		}
		groups = append(groups, g)
	}
	lang := "en"
	if p.zh {
		lang = "zh-CN"
	}
	var out bytes.Buffer
	err := layout.ExecuteTemplate(&out, "page.html", map[string]any{
		"Title": p.title, "Lang": lang, "Zh": p.zh, "Root": strings.Repeat("../", strings.Count(p.target, "/")), "Version": o.version,
		"Menu": groups, "Body": template.HTML(content), "Source": p.source, "Lab": o.runs,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.source, err)
	}
	return write(filepath.Join(dir, p.target), out.Bytes())
}

// tables wraps each table so it can be scrolled by itself. An empty cell is not a header.
var tables = strings.NewReplacer("<table>", `<div class="scroll" tabindex="0"><table>`, "</table>", "</table></div>", "<th></th>", "<td></td>")

// versions writes the list of versions, and a page that leads to the newest.
func versions(out, latest string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if _, err := fs.Stat(os.DirFS(out), e.Name()+"/search.js"); e.IsDir() && err == nil {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(versionKey(b), versionKey(a)) })
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	newest := names[0]
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "v") }); i >= 0 {
		newest = names[i]
	}
	to := template.HTMLEscapeString(newest + "/index.html")
	lead := fmt.Sprintf("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Conclave</title><meta http-equiv=\"refresh\" content=\"0; url=%s\"><a href=\"%s\">Conclave %s</a></html>\n", to, to, template.HTMLEscapeString(newest))
	return errors.Join(write(filepath.Join(out, "versions.js"), append(append([]byte("window.siteVersions = "), list...), ";\n"...)),
		write(filepath.Join(out, "index.html"), []byte(lead)))
}

var digits = regexp.MustCompile(`\d+`)

// versionKey sorts versions by their numbers: v0.10.0 comes after v0.9.0.
func versionKey(name string) string {
	return digits.ReplaceAllStringFunc(name, func(n string) string { return fmt.Sprintf("%9s", n) })
}

func write(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, content, 0o644)
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, content)
}
