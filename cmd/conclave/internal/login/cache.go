package login

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/types"
)

// ticketCache is a file in which kinit or a similar program stores the tickets of one principal.
type ticketCache struct {
	path string
	of   string // NAME@REALM, whose tickets are used; "" for any principal
}

// openCache returns the cache of a section, nil if it has none. The file may be created later.
func openCache(m *module, defaultRealm string) *ticketCache {
	if !m.on("useTicketCache") {
		return nil
	}
	c := &ticketCache{of: m.options["principal"]}
	if c.of != "" && !strings.Contains(c.of, "@") {
		c.of += "@" + defaultRealm
	}
	for _, name := range []string{m.options["ticketCache"], os.Getenv("KRB5CCNAME"), "/tmp/krb5cc_" + strconv.Itoa(os.Getuid())} {
		if c.path = strings.TrimPrefix(name, "FILE:"); c.path != "" {
			break
		}
	}
	return c
}

// client returns a client with the current tickets.
func (c *ticketCache) client(conf *config.Config) (*client.Client, error) {
	cache, err := c.read()
	if err != nil {
		return nil, err
	}
	with, err := client.NewFromCCache(cache, conf, client.DisablePAFXFAST(true))
	if err != nil {
		return nil, fmt.Errorf("ticketCache %s: %w", c.path, err)
	}
	return with, nil
}

// read reads the cache, which must have a ticket-granting ticket. The error says how to
// get one.
func (c *ticketCache) read() (cache *credentials.CCache, err error) {
	defer func() {
		if p := recover(); p != nil { // the library panics on a truncated file
			cache, err = nil, fmt.Errorf("ticketCache %s is damaged: %s", c.path, c.remedy())
		}
	}()
	text, err := os.ReadFile(c.path)
	if kind, _, ok := strings.Cut(c.path, ":"); ok && errors.Is(err, fs.ErrNotExist) && kind == strings.ToUpper(kind) {
		return nil, fmt.Errorf("ticketCache %s: only a cache in a file is read, FILE:/PATH, not one of kind %s", c.path, kind)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("ticketCache: %w: %s", err, c.remedy())
	case err != nil:
		return nil, fmt.Errorf("ticketCache: %w", err)
	}
	cache = new(credentials.CCache)
	if err := cache.Unmarshal(slices.Clip(text)); err != nil { // the library reads beyond the text, into the spare capacity
		return nil, fmt.Errorf("ticketCache %s: %w", c.path, err)
	}
	realm := cache.GetClientRealm()
	if is := cache.GetClientPrincipalName().PrincipalNameString() + "@" + realm; c.of != "" && is != c.of {
		return nil, fmt.Errorf("ticketCache %s has the ticket of %s, not of %s: %s", c.path, is, c.of, c.remedy())
	}
	granting, ok := cache.GetEntry(types.PrincipalName{NameString: []string{"krbtgt", realm}})
	switch {
	case !ok:
		return nil, fmt.Errorf("ticketCache %s has no ticket-granting ticket: %s", c.path, c.remedy())
	case !time.Now().Before(granting.EndTime):
		return nil, fmt.Errorf("the ticket of ticketCache %s expired at %s: %s", c.path, granting.EndTime.UTC().Format(time.RFC3339), c.remedy())
	}
	return cache, nil
}

func (c *ticketCache) remedy() string {
	return strings.TrimRight("run kinit "+c.of, " ") + ", or set useKeyTab=true with a keyTab"
}
