package command

import (
	"errors"
	"io/fs"
	"net/http"
	"os"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/docsite"
	"github.com/conclave-project/conclave/cmd/conclave/internal/labsite"
	"github.com/spf13/cobra"
)

// docsFlags is the flags of `conclave docs`.
type docsFlags struct {
	outputFlag
	listen, export string
}

func newDocs() *cobra.Command {
	v := &docsFlags{}
	c := &cobra.Command{
		Use:   "docs",
		Short: "Read the documentation in a browser, without a network",
		Long: `Serves the documentation of this version as a site, with a menu, a search and the
laboratory. --export writes it into a directory, from which any file server can serve
it, or a browser can read it directly.

A conclave that was built from a clone first has the go command make the pages.`,
		Example: `  conclave docs
  conclave docs --listen 127.0.0.1:8090
  conclave docs --export site`,
		Args: takes(0),
		RunE: v.run,
	}
	v.add(c)
	c.Flags().StringVar(&v.listen, "listen", "127.0.0.1:0", "address and port of the site; port 0 means a free one")
	c.Flags().StringVar(&v.export, "export", "", "write the site into this directory, and serve nothing")
	return c
}

func (v *docsFlags) run(c *cobra.Command, _ []string) error {
	p, err := v.printer(c)
	if err != nil {
		return err
	}
	built := whileDoing(c, "making the pages")
	site, err := docsite.Load(c.Context())
	built()
	switch {
	case errors.Is(err, docsite.ErrNoSources):
		return cli.Failed(err, "take a released conclave, or run it from a clone: go run ./cmd/conclave docs")
	case err != nil:
		return cli.Failed(err, "the go command must be in PATH")
	}
	laboratory := func() (http.Handler, error) {
		machines, err := labsite.Load(c.Context())
		if err != nil {
			return nil, err
		}
		return labsite.Handler(machines)
	}
	if v.export == "" {
		return servePage(c, p, v.listen, "the documentation", docsite.Handler(site, laboratory))
	}
	if err := exportDocs(c, site, v.export); err != nil {
		return cli.Failed(err, "name a directory that is empty or does not exist yet")
	}
	return p.Line(map[string]string{"site": v.export}, "the site is in "+v.export)
}

// exportDocs writes the site, with the laboratory in each of its versions.
func exportDocs(c *cobra.Command, site fs.FS, dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return errors.New(dir + " is not empty")
	}
	if err := os.CopyFS(dir, site); err != nil {
		return err
	}
	built := whileDoing(c, "building the laboratory")
	machines, err := labsite.Load(c.Context())
	built()
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := labsite.Export(machines, dir+"/"+e.Name()+"/lab"); err != nil {
			return err
		}
	}
	return nil
}
