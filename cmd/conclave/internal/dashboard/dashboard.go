// Package dashboard shows an ensemble in a browser: its servers, elections, tree, sessions and
// log, live, and the same as JSON below /api/v1 for programs. The data comes from a Source; this
// package has the page and the routes, and enforces these rules for all requests:
//
//	dashboard-D1  No page of another site gets an answer or changes anything (httpport.Foreign).
//	dashboard-D2  Nothing is changed unless Options.Changes is set, and then only by a request
//	              with a body of JSON, which no form of another page can send.
//	dashboard-D3  However many browsers follow, the servers are asked once for all of them,
//	              and not at all if nobody follows.
//	dashboard-D4  A request takes bounded time and memory. A browser that does not read
//	              loses events and is told how many.
package dashboard

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/cli"
	"github.com/conclave-project/conclave/cmd/conclave/internal/httpport"
	"golang.org/x/net/netutil"
)

//go:embed site
var pages embed.FS

// Source provides all data. Its methods may be called concurrently. They return a value
// that package json can encode, or an error that cli.Describe understands.
type Source interface {
	// Look returns the state of all servers and their clients, and what they did since the previous
	// look.
	Look(ctx context.Context) (any, error)
	// Votes returns the latest elections of the servers, with their votes.
	Votes(ctx context.Context) (any, error)
	// Elections returns all elections in the tree.
	Elections(ctx context.Context) (any, error)
	// History returns the past leaders of an election.
	History(ctx context.Context, election string) (any, error)
	// Children lists at most limit children of a znode, after a cursor.
	Children(ctx context.Context, path, cursor string, limit int) (any, error)
	// Znode returns everything about a znode.
	Znode(ctx context.Context, path string) (any, error)
	// Sessions lists the sessions of the ensemble.
	Sessions(ctx context.Context) (any, error)
	// Watches lists the watchers of a znode and of the znodes below it.
	Watches(ctx context.Context, path string) (any, error)
	// Log finds transactions in the retained log.
	Log(ctx context.Context, q LogQuery) (any, error)
	// Follow reports the transactions that are committed from now on, several times a second,
	// until ctx ends.
	Follow(ctx context.Context, tell func(any)) error

	// Ask asks the leader of an election to resign, or to transfer the leadership to a candidate.
	Ask(ctx context.Context, election, to string) (any, error)
	// Write creates, changes or deletes a znode.
	Write(ctx context.Context, w Write) (any, error)
}

// LogQuery selects transactions. Zero fields select everything.
type LogQuery struct {
	Path    string // of a znode that they change, or of an ancestor
	Session string
	Op      string
	Limit   int // at most this many, the newest
}

// Write is a change of one znode.
type Write struct {
	Do      string  `json:"do"` // create, set or delete
	Path    string  `json:"path"`
	Data    *string `json:"data"`       // as text,
	Base64  string  `json:"dataBase64"` // or in Base64; neither means null
	Version *int32  `json:"version"`    // of set and delete; any version if it is missing
	Mode    string  `json:"mode"`       // of create: "", "sequential" or "container"
}

// Options define what a dashboard may do and what it can show.
type Options struct {
	Changes bool   // resign, transfer, create, set and delete
	Log     bool   // Source.Log and Source.Follow have data
	Version string // of the program
	Logger  *slog.Logger

	// Lab is the laboratory, served below /lab/; nil for none.
	Lab http.Handler
}

// Bounds of requests.
const (
	answerTime   = 20 * time.Second
	askingMax    = 32 // requests that may wait for the source at the same time
	conns        = 256
	bodyBytesMax = 4 << 20
	endTime      = 5 * time.Second
	limitDefault = 200
	limitMax     = 1000
)

// A Dashboard is the page and its API. Close ends it.
type Dashboard struct {
	source  Source
	options Options
	asking  chan struct{}
	streams map[string]*stream
	server  *http.Server
	end     context.CancelFunc // of all requests
	ended   chan struct{}      // nil before Serve
}

// New returns a Dashboard that is not served yet.
func New(source Source, options Options) *Dashboard {
	d := &Dashboard{source: source, options: options, asking: make(chan struct{}, askingMax)}
	d.streams = map[string]*stream{
		"look":      {produce: every(lookTime, source.Look)},
		"elections": {produce: every(electionsTime, source.Elections)},
	}
	if options.Log {
		d.streams["log"] = &stream{produce: func(ctx context.Context, publish func(any)) error { return source.Follow(ctx, publish) }}
	}
	var ctx context.Context
	ctx, d.end = context.WithCancel(context.Background())
	d.server = &http.Server{
		Handler: d.Handler(), BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: slog.NewLogLogger(options.Logger.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	return d
}

// CheckAddress refuses an address that is not loopback: everybody who reaches a dashboard has
// the rights of this process.
func CheckAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return cli.Usage("write for example 127.0.0.1:8080", "address of the dashboard: %w", err)
	}
	ips := []net.IP{net.ParseIP(host)}
	if host == "localhost" {
		ips = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	if ips[0] == nil || !ips[0].IsLoopback() {
		return cli.Usage("write 127.0.0.1:8080, and reach it from elsewhere with `ssh -L`, `kubectl port-forward` or a proxy that asks who comes",
			"the dashboard is served on the loopback alone, and %q is not of it: it has no login of its own", address)
	}
	return nil
}

// Listen opens the port of a dashboard, on an address that CheckAddress accepts.
func Listen(address string) (net.Listener, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, cli.Failed(fmt.Errorf("dashboard: %w", err), "write another address or port, or port 0 for a free one")
	}
	return netutil.LimitListener(l, conns), nil
}

// Serve answers on a listener until Close.
func (d *Dashboard) Serve(l net.Listener) {
	d.ended = make(chan struct{})
	go func() {
		defer close(d.ended)
		if err := d.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.options.Logger.Error("the dashboard is not served any more", "error", err)
		}
	}()
}

// Close ends all requests and waits until the source is no longer in use.
func (d *Dashboard) Close() {
	d.end()
	ending, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	_ = d.server.Shutdown(ending) // waits for the handlers
	_ = d.server.Close()
	if d.ended != nil {
		<-d.ended
	}
	for _, s := range d.streams {
		s.close()
	}
}

// policy forbids the page to load anything from elsewhere, and to run scripts other than its own.
const policy = "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler returns the page and the API. It is safe for concurrent use.
func (d *Dashboard) Handler() http.Handler {
	site, err := fs.Sub(pages, "site")
	if err != nil {
		panic(err) // cannot happen: the files are embedded
	}
	root := http.NewServeMux()
	if d.options.Lab != nil {
		root.Handle("/lab/", http.StripPrefix("/lab", d.options.Lab))
	}
	files := http.FileServerFS(site)
	root.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Cache-Control", "no-cache")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		files.ServeHTTP(w, r)
	})
	root.Handle("/api/", own(d.api()))
	return bounded(root)
}

// bounded allows a body only for changes, and limits how long it may take (dashboard-D4).
func bounded(handler http.Handler) http.Handler {
	bodiless := httpport.Bodiless(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			bodiless.ServeHTTP(w, r)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(answerTime))
		handler.ServeHTTP(w, r)
	})
}

// own refuses requests of other sites' pages (dashboard-D1).
func own(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if why := httpport.Foreign(r); why != "" {
			refuse(w, http.StatusForbidden, why, "open the page by its address")
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func (d *Dashboard) api() http.Handler {
	api := http.NewServeMux()
	get := func(path string, f func(ctx context.Context, r *http.Request) (any, error)) {
		api.HandleFunc("GET /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, f) })
	}
	get("about", func(context.Context, *http.Request) (any, error) {
		return About{d.options.Version, d.options.Changes, d.options.Log, d.options.Lab != nil}, nil
	})
	get("look", func(ctx context.Context, _ *http.Request) (any, error) { return d.source.Look(ctx) })
	get("elections", func(ctx context.Context, _ *http.Request) (any, error) { return d.source.Elections(ctx) })
	get("elections/history", func(ctx context.Context, r *http.Request) (any, error) {
		return d.source.History(ctx, r.URL.Query().Get("election"))
	})
	get("children", func(ctx context.Context, r *http.Request) (any, error) {
		limit, err := limited(r)
		if err != nil {
			return nil, err
		}
		return d.source.Children(ctx, pathOf(r), r.URL.Query().Get("cursor"), limit)
	})
	get("znode", func(ctx context.Context, r *http.Request) (any, error) { return d.source.Znode(ctx, pathOf(r)) })
	get("votes", func(ctx context.Context, _ *http.Request) (any, error) { return d.source.Votes(ctx) })
	get("sessions", func(ctx context.Context, _ *http.Request) (any, error) { return d.source.Sessions(ctx) })
	get("watches", func(ctx context.Context, r *http.Request) (any, error) {
		return or(absolute(r), func() (any, error) { return d.source.Watches(ctx, pathOf(r)) })
	})
	get("log", func(ctx context.Context, r *http.Request) (any, error) {
		if !d.options.Log {
			return nil, cli.NotFound(errors.New("there is no log to read here"), "the dashboards of `conclave serve` and `conclave dev` have one")
		}
		limit, err := limited(r)
		return or(errors.Join(err, absolute(r)), func() (any, error) {
			return d.source.Log(ctx, LogQuery{r.URL.Query().Get("path"), r.URL.Query().Get("session"), r.URL.Query().Get("op"), limit})
		})
	})
	api.HandleFunc("GET /api/v1/events", d.events)
	api.HandleFunc("GET /api/v1/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, pages, "site/openapi.json")
	})
	change := func(path string, f func(ctx context.Context, body []byte) (any, error)) {
		api.HandleFunc("POST /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) { d.change(w, r, f) })
	}
	change("elections/ask", func(ctx context.Context, body []byte) (any, error) {
		var ask struct {
			Election string `json:"election"`
			To       string `json:"to"`
		}
		return or(read(body, &ask), func() (any, error) { return d.source.Ask(ctx, ask.Election, ask.To) })
	})
	change("znode", func(ctx context.Context, body []byte) (any, error) {
		var w Write
		return or(read(body, &w), func() (any, error) { return d.source.Write(ctx, w) })
	})
	api.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "there is no such request", "/api/v1/openapi.json describes all")
	})
	return api
}

// About describes what a dashboard can do.
type About struct {
	Version string `json:"version"`
	Changes bool   `json:"changes"`
	Log     bool   `json:"log"`
	Lab     bool   `json:"lab"`
}

func or(err error, f func() (any, error)) (any, error) {
	if err != nil {
		return nil, err
	}
	return f()
}

// read reads the body of a change. An unknown field is an error, because it would
// have no effect.
func read(body []byte, into any) error {
	if err := strictly(body, into); err != nil {
		return cli.Usage("/api/v1/openapi.json has the form", "body: %w", err)
	}
	return nil
}

func pathOf(r *http.Request) string {
	if path := r.URL.Query().Get("path"); path != "" {
		return path
	}
	return "/"
}

// absolute refuses a path that does not begin with a slash: it would find nothing.
func absolute(r *http.Request) error {
	if path := pathOf(r); path[0] != '/' {
		return cli.Usage("paths begin with /", "path %q", path)
	}
	return nil
}

func limited(r *http.Request) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return limitDefault, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > limitMax {
		return 0, cli.Usage(fmt.Sprintf("write 1 to %d, or leave it out", limitMax), "limit %q", text)
	}
	return n, nil
}

// answer asks the source, for a bounded time, and writes the result.
func (d *Dashboard) answer(w http.ResponseWriter, r *http.Request, f func(ctx context.Context, r *http.Request) (any, error)) {
	select {
	case d.asking <- struct{}{}:
	default:
		refuse(w, http.StatusServiceUnavailable, "too many requests wait for the servers", "try again")
		return
	}
	defer func() { <-d.asking }()
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	value, err := f(ctx, r)
	if err != nil {
		fail(w, err)
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		fail(w, err)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the browser may be gone
}

// change is answer for requests that change something (dashboard-D2).
func (d *Dashboard) change(w http.ResponseWriter, r *http.Request, f func(ctx context.Context, body []byte) (any, error)) {
	if !d.options.Changes {
		refuse(w, http.StatusForbidden, "nothing can be changed here", "start the dashboard with --changes")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "the body of a change is JSON", "send it with Content-Type: application/json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyBytesMax))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, err.Error(), "a znode has at most 1 MiB")
		return
	}
	d.answer(w, r, func(ctx context.Context, _ *http.Request) (any, error) { return f(ctx, body) })
}

// fail writes an error of the source.
func fail(w http.ResponseWriter, err error) {
	text, hint, exit := cli.Describe(err)
	status := http.StatusBadGateway
	switch {
	case exit == cli.ExitUsage:
		status = http.StatusBadRequest
	case exit == cli.ExitNotFound:
		status = http.StatusNotFound
	case exit == cli.ExitNoServer:
		status = http.StatusServiceUnavailable
	case isRefused(err):
		status = http.StatusForbidden
	case isConflict(err):
		status = http.StatusConflict
	}
	refuse(w, status, text, hint)
}

// Problem is the answer to a failed request.
type Problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"` // what to do about it
}

func refuse(w http.ResponseWriter, status int, text, hint string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(Problem{text, hint})
}
