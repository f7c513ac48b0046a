package main

// section is a section of the menu. Its pages are files of the project.
type section struct {
	title, titleZh string
	pages          []string
}

// menu is the menu of the site, in order. A page that is not in it is not in the site.
var menu = []section{
	{"Start", "开始", []string{"README.md", "docs/getting-started.md", "docs/recipes.md", "docs/install.md", "docs/commands.md", "docs/shell.md", "docs/faq.md", "CHANGELOG.md"}},
	{"Concepts", "概念", []string{"docs/concepts.md", "docs/algorithms.md", "docs/fencing.md", "docs/scenarios.md", "docs/laboratory.md", "docs/glossary.md", "docs/protocols/fle.md", "docs/protocols/zab.md"}},
	{"Operate", "运维", []string{"docs/operations.md", "docs/runbooks.md", "docs/configuration.md", "docs/metrics.md", "docs/dashboard.md", "docs/applications.md", "docs/differences.md", "docs/stability.md", "SECURITY.md"}},
	{"Stores", "存储", []string{"docs/backends.md", "docs/comparison.md", "docs/coming-from/README.md", "docs/coming-from/curator.md", "docs/coming-from/etcd.md", "docs/coming-from/consul.md", "docs/coming-from/client-go.md", "docs/coming-from/dynamodb.md"}},
	{"Proofs", "证明", []string{"docs/proofs.md", "docs/simulator.md", "docs/model.md", "docs/bugs.md"}},
	{"Inside", "内部", []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "docs/performance.md", "docs/decisions/README.md"}},
	{"中文", "中文", []string{"README.zh-CN.md", "docs/zh-CN/getting-started.md", "docs/zh-CN/concepts.md", "docs/zh-CN/laboratory.md", "docs/zh-CN/glossary.md"}},
}

// beside are pages outside the menu that other pages link to: a directory, and the pattern
// of its files.
var beside = []string{"docs/decisions/0*.md"}
