package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conclave-project/conclave/internal/inprocess"
)

// devAsk is the request of a subcommand to a running `conclave dev`, as one line of JSON;
// devAnswer is the line of the answer.
type devAsk struct {
	Do  string `json:"do"` // describe, kill, start, cut, heal
	IDs []int  `json:"ids,omitempty"`
}

const nobodyLeadsHere = "nobody leads: more than half of the servers must run and reach each other"

// leaderID stands for the server that leads when the request arrives.
const leaderID = -1

type devAnswer struct {
	Text    string   `json:"text,omitempty"`
	Error   string   `json:"error,omitempty"`
	Dir     string   `json:"dir"`
	Servers []string `json:"servers"` // their addresses for clients
	Down    []int    `json:"down,omitempty"`
	Cuts    [][2]int `json:"cuts,omitempty"`
}

// devControl answers subcommands on a socket in a directory of this user.
type devControl struct {
	ensemble *inprocess.Ensemble
	news     *devNews
	dir      string
	listener net.Listener
	tasks    sync.WaitGroup

	mu   sync.Mutex // one at a time
	cuts [][2]int
}

// devControlTime bounds one exchange: a kill waits for the next leader.
const (
	devControlTime = 10 * time.Second
	devLeaderTime  = 5 * time.Second
)

// devControlDirs returns the directories in which the sockets may be, best first: the path
// of a socket must be short, and nobody else may connect.
func devControlDirs() []string {
	var dirs []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		dirs = append(dirs, filepath.Join(dir, "conclave"))
	}
	if dir, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(dir, "conclave", "dev"))
	}
	return append(dirs, filepath.Join(os.TempDir(), fmt.Sprintf("conclave-dev-of-%d", os.Getuid())))
}

func newDevControl(e *inprocess.Ensemble, news *devNews, dir string) (*devControl, error) {
	d := &devControl{ensemble: e, news: news, dir: dir}
	_, port, err := net.SplitHostPort(e.Addr(1))
	if err != nil {
		return nil, err
	}
	if d.listener, err = listenControl(port + ".sock"); err != nil {
		return nil, err
	}
	d.tasks.Go(d.accept)
	return d, nil
}

// listenControl opens a socket in the first directory that allows it. An existing socket of
// that name belongs to a dev that has ended, because this dev has its port.
func listenControl(name string) (net.Listener, error) {
	var errs []error
	for _, dir := range devControlDirs() {
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			err = os.Chmod(dir, 0o700) // fails in a directory of another user
		}
		if err == nil {
			path := filepath.Join(dir, name)
			_ = os.Remove(path)
			var l net.Listener
			if l, err = net.Listen("unix", path); err == nil {
				return l, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// close ends the control; the listener removes its socket.
func (d *devControl) close() {
	d.listener.Close()
	d.tasks.Wait()
}

func (d *devControl) accept() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.tasks.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(devControlTime))
			var ask devAsk
			if json.NewDecoder(conn).Decode(&ask) == nil {
				_ = json.NewEncoder(conn).Encode(d.answer(&ask))
			}
		})
	}
}

func (d *devControl) answer(ask *devAsk) devAnswer {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, err := d.do(ask)
	a := devAnswer{Text: text, Dir: d.dir, Servers: d.ensemble.Addrs(), Cuts: d.cuts}
	for id := 1; id <= d.ensemble.Size(); id++ {
		if d.ensemble.Server(id) == nil {
			a.Down = append(a.Down, id)
		}
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

func (d *devControl) do(ask *devAsk) (string, error) {
	for i, id := range ask.IDs {
		if id == leaderID {
			// A leader that has just lost its quorum may not have noticed yet.
			if id = d.ensemble.Leader(); id == 0 || !d.quorate() {
				return "", errors.New(nobodyLeadsHere)
			}
			ask.IDs[i] = id
		}
		if id < 1 || id > d.ensemble.Size() {
			return "", fmt.Errorf("there is no server %d: they are numbered 1 to %d", id, d.ensemble.Size())
		}
	}
	switch {
	case ask.Do == "describe":
		return "", nil
	case ask.Do == "kill" && len(ask.IDs) > 0:
		return d.each(ask.IDs, true, "killed", d.ensemble.Kill)
	case ask.Do == "start" && len(ask.IDs) > 0:
		return d.each(ask.IDs, false, "started", d.ensemble.Start)
	case ask.Do == "cut" && len(ask.IDs) == 2:
		return d.cut(ask.IDs[0], ask.IDs[1])
	case ask.Do == "heal":
		return d.heal(), nil
	}
	return "", fmt.Errorf("dev does not know %q with %d servers", ask.Do, len(ask.IDs))
}

// each kills or starts servers, and waits for the consequences. A server that is already in
// that state does not prevent the others from being changed.
func (d *devControl) each(ids []int, kill bool, done string, f func(id int) error) (string, error) {
	_, epoch, _ := d.news.leads()
	var lines []string
	var failed []error
	for _, id := range ids {
		line := fmt.Sprintf("server %d %s", id, done)
		if running := d.ensemble.Server(id) != nil; running == kill {
			d.news.did(line, kill, id)
		}
		if err := f(id); err != nil {
			failed = append(failed, err)
			continue
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "", errors.Join(failed...)
	}
	return strings.Join(append(lines, d.outcome(epoch, ids)), "\n"), errors.Join(failed...)
}

func (d *devControl) cut(a, b int) (string, error) {
	line := fmt.Sprintf("servers %d and %d can no longer reach each other", a, b)
	if a != b {
		d.news.did(line, false, a, b)
	}
	if err := d.ensemble.Cut(a, b); err != nil {
		return "", err
	}
	if pair := [2]int{min(a, b), max(a, b)}; !slices.Contains(d.cuts, pair) {
		d.cuts = append(d.cuts, pair)
	}
	return line, nil
}

func (d *devControl) heal() string {
	const line = "all servers reach each other"
	_, epoch, _ := d.news.leads()
	d.news.did(line, false)
	d.ensemble.Heal()
	d.cuts = nil
	return line + "\n" + d.outcome(epoch, nil)
}

// outcome describes who leads, once there is a leader and those of these servers that run
// also serve. It says nothing about the leader of an earlier epoch.
func (d *devControl) outcome(before uint32, ids []int) string {
	if !d.quorate() {
		return nobodyLeadsHere
	}
	ctx, cancel := context.WithTimeout(context.Background(), devLeaderTime)
	defer cancel()
	// A server that is partitioned does not serve in time; that is no error.
	_ = d.ensemble.Await(ctx, func() bool {
		leader, _, _ := d.news.leads()
		for _, id := range ids {
			if s := d.ensemble.Server(id); s != nil && !s.Serves() {
				return false
			}
		}
		return leader != 0 && leader == d.ensemble.Leader()
	})
	leader, epoch, line := d.news.leads()
	switch {
	case leader == 0:
		return nobodyLeadsHere
	case epoch == before && d.ensemble.Size() > 1:
		return fmt.Sprintf("server %d leads, epoch %d, as before", leader, epoch)
	}
	return line
}

// quorate reports whether enough servers run to elect one of them.
func (d *devControl) quorate() bool {
	participants, running := 0, 0
	for id := 1; id <= d.ensemble.Size(); id++ {
		if !d.ensemble.Votes(id) {
			continue
		}
		participants++
		if d.ensemble.Server(id) != nil {
			running++
		}
	}
	return 2*running > participants
}
