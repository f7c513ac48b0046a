package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	var o options
	flag.StringVar(&o.out, "o", "", "directory to write the site into; other versions in it stay")
	flag.StringVar(&o.version, "version", "dev", "name of this version's folder")
	flag.StringVar(&o.lab, "lab", "", "directory of the laboratory, as `conclave lab --export` writes it; none leaves it out")
	flag.BoolVar(&o.runs, "runs", false, "show runs of the laboratory, which will be served below VERSION/lab; -lab does, too")
	flag.StringVar(&o.root, "root", "../..", "directory of the project")
	flag.Parse()
	o.runs = o.runs || o.lab != ""
	if o.out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	n, err := build(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", n, o.out)
}
