// Package adminport is ZooKeeper's admin server: the commands of package admin over HTTP,
// as JSON, and health checks for supervisors.
//
//	adminport-P1  A command is requested by GET, under the path of the settings. The status is
//	              200 even if the answer contains an error, as in ZooKeeper.
//	adminport-P2  /livez, /readyz and /healthz have the status 200, or 503 with the reason.
//	adminport-P3  No page of another site that an operator's browser shows gets an answer by
//	              a request of its own (httpport-H4).
//	adminport-P4  However many requests come, a bounded number waits for the server, for a
//	              bounded time. Health checks have places of their own, and so has the one
//	              snapshot at a time, which takes as long as it takes.
//	adminport-P5  However many clients ask and do not read, few long answers are in memory at
//	              a time.
//	adminport-P6  A snapshot is taken only for a client that proves that it may read and change
//	              everything, and only as often as the settings say.
package adminport

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/conclave-project/conclave/cmd/conclave/internal/httpport"
	"github.com/conclave-project/conclave/internal/admin"
	"github.com/conclave-project/conclave/internal/server"
)

// Bounds of the port.
const (
	askingMax  = 8                // requests that may wait for the server at one time; the same number of health checks
	answerTime = 10 * time.Second // how long a request waits
)

// Handler answers about a server. root is the path of the commands, such as /commands.
func Handler(s *server.Server, commands admin.Commands, root string, copies Copies) http.Handler {
	return handler(s, commands, root, copies, answerTime)
}

func handler(s *server.Server, commands admin.Commands, root string, copies Copies, limit time.Duration) http.Handler {
	routes := http.NewServeMux()
	root = "/" + strings.Trim(root, "/")
	list := func(w http.ResponseWriter, _ *http.Request) { links(w, root) }
	routes.HandleFunc("GET "+strings.TrimSuffix(root, "/")+"/{$}", list)
	if root != "/" {
		routes.HandleFunc("GET "+root, list)
	}
	routes.HandleFunc("GET "+strings.TrimSuffix(root, "/")+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		tellReport(w, r, s, commands)
	})
	health, all := http.NewServeMux(), http.NewServeMux()
	asked := bounded(health, limit)
	for name, check := range checks {
		health.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) { tell(w, check(s)) })
		all.Handle("/"+name, asked)
	}
	all.Handle("/", bounded(routes, limit))
	copier := &copier{Copies: copies, server: s}
	for _, name := range copyNames {
		all.Handle("GET "+strings.TrimSuffix(root, "/")+"/"+name, copier) // unbounded: a large file takes long
	}
	return withPlaces(all)
}

// tellReport answers a command. An answer that may be long is not made before it has a
// place.
func tellReport(w http.ResponseWriter, r *http.Request, s *server.Server, commands admin.Commands) {
	name, place := r.PathValue("name"), placeOf(r)
	place.use()
	defer place.leave()
	if admin.Long(name) && !place.take() {
		http.Error(w, othersRead, http.StatusServiceUnavailable)
		return
	}
	text, err := encode(commands.Report(s, name, r.URL.Query()))
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case len(text) > longBytes && !place.take():
		http.Error(w, othersRead, http.StatusServiceUnavailable)
	default:
		write(w, http.StatusOK, text)
	}
}

// bounded lets a limited number of requests through at a time, and answers the ones that
// take longer than limit (adminport-P4). They keep their place until they end.
func bounded(routes http.Handler, limit time.Duration) http.Handler {
	asking := make(chan struct{}, askingMax)
	return http.TimeoutHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := httpport.Foreign(r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		select {
		case asking <- struct{}{}:
		default:
			http.Error(w, "too many requests are waiting for an answer: try again", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-asking }()
		routes.ServeHTTP(w, r)
	}), limit, "the server does not answer")
}

// encode returns a value as indented JSON, as in ZooKeeper.
func encode(value any) ([]byte, error) {
	text, err := json.MarshalIndent(value, "", "  ")
	return append(text, '\n'), err
}

// write writes JSON.
func write(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// links answers a browser that requests no command.
func links(w http.ResponseWriter, root string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	for _, name := range slices.Sorted(slices.Values(append(admin.Reports(), copyNames[0]))) {
		path := html.EscapeString(strings.TrimSuffix(root, "/") + "/" + name)
		fmt.Fprintf(w, "<a href=\"%s\">%s</a>\n<br/>\n", path, name)
	}
}
