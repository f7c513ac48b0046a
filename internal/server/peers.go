package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conclave-project/conclave/internal/ensemble"
	"github.com/conclave-project/conclave/internal/fle"
	"github.com/conclave-project/conclave/internal/peernet"
	"github.com/conclave-project/conclave/internal/peerwire"
	"github.com/conclave-project/conclave/internal/ports"
	"github.com/conclave-project/conclave/internal/quorum"
	"github.com/conclave-project/conclave/internal/replica"
	"github.com/conclave-project/conclave/internal/replicadisk"
	"github.com/conclave-project/conclave/internal/txn"
	"github.com/conclave-project/conclave/internal/zab"
	"github.com/conclave-project/conclave/zk"
)

// peers are the connections to the other servers of the ensemble.
type peers struct {
	server *Server
	votes  *peernet.Votes
	links  *peernet.Links
	known  atomic.Pointer[addressBook]

	follows  atomic.Bool // the port for observers is open
	outgoing zab.LinkID  // the link to the leader, or the attempt to connect; of the loop
	up       bool        // outgoing is a link, not just an attempt

	// reading is held while the log is read for a learner, so that the parts for many learners
	// arrive at the loop one by one.
	reading sync.Mutex
}

// addressBook says where the other servers are.
type addressBook struct{ inForce, proposed *ensemble.Config }

// find returns the addresses of one kind of a server: those in the configuration in force, then
// those in the proposed one that differ. A server to which a reconfig gives other ports moves
// once the reconfig is committed, and a server that has not learned of the commit can find it
// only by the proposal. It returns none if neither names the server.
func (b *addressBook) find(id quorum.ID, of func(*ensemble.Member) []ensemble.Address) []ensemble.Address {
	var all []ensemble.Address
	for _, c := range []*ensemble.Config{b.inForce, b.proposed} {
		if c == nil {
			continue
		}
		if m := c.Member(id); m != nil {
			for _, address := range of(m) {
				if !slices.Contains(all, address) {
					all = append(all, address)
				}
			}
		}
	}
	return all
}

// line returns a server's line, which says its role and addresses: from the configuration in
// force or else from the proposed one; nil if neither names it.
func (b *addressBook) line(id quorum.ID) *ensemble.Member {
	if m := b.inForce.Member(id); m != nil || b.proposed == nil {
		return m
	}
	return b.proposed.Member(id)
}

// has reports whether some server has this host name, in the configuration in force or in the
// proposed one.
func (b *addressBook) has(host string) bool {
	return slices.ContainsFunc(b.hosts(), func(known string) bool { return strings.EqualFold(known, host) })
}

// hostsOf returns the hosts of one server.
func (b *addressBook) hostsOf(id quorum.ID) []string {
	var all []string
	for _, a := range slices.Concat(b.find(id, quorumOf), b.find(id, electionOf)) {
		if !slices.Contains(all, a.Host) {
			all = append(all, a.Host)
		}
	}
	return all
}

// hosts returns the hosts of all servers, in the configuration in force and in the proposed
// one.
func (b *addressBook) hosts() []string {
	var all []string
	for _, c := range []*ensemble.Config{b.inForce, b.proposed} {
		if c == nil {
			continue
		}
		for i := range c.Members {
			m := &c.Members[i]
			for _, a := range slices.Concat(m.Quorum, m.Election) {
				if !slices.Contains(all, a.Host) {
					all = append(all, a.Host)
				}
			}
		}
	}
	return all
}

func electionOf(m *ensemble.Member) []ensemble.Address { return m.Election }
func quorumOf(m *ensemble.Member) []ensemble.Address   { return m.Quorum }

// listenForPeers opens the ports for the other servers.
func (s *Server) listenForPeers() error {
	if s.cfg.Ensemble == nil {
		return nil
	}
	line := s.cfg.Line()
	if line == nil {
		line = new(ensemble.Member)
	}
	s.quorumPort = ports.New(ports.Options{Name: "quorum port", Listen: s.cfg.Listen, Logger: s.cfg.Logger})
	s.electionPort = ports.New(ports.Options{Name: "election port", Listen: s.cfg.Listen, Logger: s.cfg.Logger})
	if s.cfg.ObserverPort > 0 {
		s.observerPort = ports.New(ports.Options{Name: "port for observers", Listen: s.cfg.Listen, Logger: s.cfg.Logger}) // open while this server follows
	}
	err := s.listenPeers(s.quorumPort, s.cfg.QuorumListener, s.cfg.QuorumAddr, line.Quorum, "learners", "the first port")
	if err == nil {
		err = s.listenPeers(s.electionPort, s.cfg.ElectionListener, s.cfg.ElectionAddr, line.Election, "votes", "the second port")
	}
	return err
}

// listenPeers opens a port at the addresses in the line. A given listener or address replaces
// those addresses, until a reconfig moves them.
func (s *Server) listenPeers(p *ports.Ports, given net.Listener, wanted string, line []ensemble.Address, what, which string) error {
	addresses := s.cfg.PeerAddresses(line)
	if given == nil && wanted != "" {
		var err error
		if given, err = net.Listen("tcp", wanted); err != nil {
			return fmt.Errorf("listen for %s on %s: %w", what, wanted, err)
		}
	}
	switch {
	case given != nil:
		name := given.Addr().String()
		if len(addresses) > 0 {
			name = addresses[0]
		}
		p.Take(name, given)
		return nil
	case len(addresses) == 0:
		return fmt.Errorf("this server has no line in the configuration that says where to listen for %s", what)
	}
	for _, address := range addresses {
		if err := p.Listen(address); err != nil {
			return fmt.Errorf("listen for %s on %s (%s of this server's line): %w", what, address, which, err)
		}
	}
	return nil
}

// securedPeers returns a listener for servers with the configured TLS.
func (s *Server) securedPeers(l net.Listener) net.Listener {
	if s.cfg.SecurePeers == nil {
		return l
	}
	return s.cfg.SecurePeers(l, func() []string { return s.peers.known.Load().hosts() })
}

func (s *Server) closePeerListeners() {
	for _, p := range []*ports.Ports{s.quorumPort, s.electionPort, s.observerPort} {
		if p != nil {
			p.Close()
		}
	}
}

// connectPeers begins to take part in the ensemble.
func (s *Server) connectPeers() error {
	if s.cfg.Ensemble == nil {
		return nil
	}
	p := &peers{server: s}
	// The log may have a reconfig that the files do not have, and the others may have moved
	// because of it.
	book := &addressBook{inForce: s.cfg.Ensemble, proposed: newer(s.cfg.Pending, s.replica.LoggedConfig())}
	p.known.Store(book)
	s.peers = p
	if err := p.openVotes(book); err != nil {
		return err
	}
	p.openLinks()
	p.listen(book)
	if s.cfg.Oracle != nil {
		s.task(p.askOracle)
	}
	return nil
}

// newer returns the configuration with the higher version; nil is older than any.
func newer(a, b *ensemble.Config) *ensemble.Config {
	if a == nil || b != nil && b.Version > a.Version {
		return b
	}
	return a
}

// listen opens the ports wherever the others may look for this server: at its addresses in the
// configuration in force, and at those in the proposed one, because the others may already know
// that it is in force. A server that no configuration names stays where it is.
func (p *peers) listen(book *addressBook) {
	s := p.server
	of := func(kind func(*ensemble.Member) []ensemble.Address) []string {
		var all []string
		for _, c := range []*ensemble.Config{book.inForce, book.proposed} {
			if c == nil {
				continue
			}
			if m := c.Member(s.cfg.ID); m != nil {
				for _, address := range s.cfg.PeerAddresses(kind(m)) {
					if !slices.Contains(all, address) {
						all = append(all, address)
					}
				}
			}
		}
		return all
	}
	if quorumAddresses := of(quorumOf); len(quorumAddresses) > 0 {
		s.quorumPort.Move(quorumAddresses...)
		s.electionPort.Move(of(electionOf)...)
	}
	if s.observerPort == nil {
		return
	}
	if !p.follows.Load() {
		s.observerPort.Move()
		return
	}
	s.observerPort.Move(of(func(m *ensemble.Member) []ensemble.Address { return s.cfg.ObserverAddresses(m) })...)
}

// serveObservers opens the port for observers while this server follows, and closes it in any
// other role, so that observers look for another master at once.
func (p *peers) serveObservers(follows bool) {
	if p.server.observerPort != nil && p.follows.Swap(follows) != follows {
		p.listen(p.known.Load())
	}
}

// ObserverAddresses returns where observers find a server that follows: ObserverPort at the
// hosts of its quorum addresses.
func (c *EnsembleConfig) ObserverAddresses(m *ensemble.Member) []ensemble.Address {
	all := slices.Clone(m.Quorum)
	for i := range all {
		all[i].Port = uint16(c.ObserverPort)
	}
	return all
}

// advertise announces where this server's election port is. A server that no configuration
// names stays where it is, and announces that: it is in no other server's book, and a server
// with a higher number ends its connection in order to connect to it.
func (p *peers) advertise(book *addressBook) {
	line := book.line(p.server.cfg.ID)
	if line == nil {
		return
	}
	if err := p.votes.Advertise(line.Election); err != nil {
		p.server.cfg.Logger.Error("this server cannot tell where its election port is now", "error", err)
	}
}

func (p *peers) openVotes(book *addressBook) error {
	s := p.server
	var own []peerwire.Address
	if line := cmp.Or(book.line(s.cfg.ID), s.cfg.Own); line != nil {
		own = line.Election
	}
	votes, err := peernet.NewVotes(peernet.VotesOptions{
		ID: s.cfg.ID, Listener: s.securedPeers(s.electionPort), Advertise: own, Addresses: p.electionAddresses,
		Receive: p.notified, ConnectTimeout: s.cfg.ConnectTime, Dial: s.cfg.PeerDial, Proofs: p.proofs(), Hosts: p.hostsOf, Logger: s.cfg.Logger,
	})
	p.votes = votes
	return err
}

func (p *peers) openLinks() {
	s := p.server
	var observers net.Listener
	if s.observerPort != nil {
		observers = s.securedPeers(s.observerPort)
	}
	p.links = peernet.NewLinks(peernet.LinksOptions{
		Listener: s.securedPeers(s.quorumPort), Observers: observers, DataBytesMax: s.cfg.ReadBytesMax(),
		SilenceMax: max(s.cfg.silence(), time.Duration(s.cfg.InitLimit)*s.cfg.TickTime),
		Hosts:      p.hostsOf,
		Handler:    p, Dial: s.cfg.PeerDial, Proofs: p.proofs(), Logger: s.cfg.Logger,
	})
}

// hostsOf returns the hosts that may certify a server: its own. For a server that no
// configuration names these are the hosts of all servers, if only members may connect.
func (p *peers) hostsOf(id quorum.ID) []string {
	book := p.known.Load()
	if hosts := book.hostsOf(id); len(hosts) > 0 || !p.server.cfg.PeersAreMembers {
		return hosts
	}
	return book.hosts()
}

// proofs returns how servers prove their identity. A server that wants to act as another one is
// refused, and so is one whose name has a host that is not in the ensemble. The number that it
// then claims is compared with the host, see hostsOf.
func (p *peers) proofs() *peernet.Proofs {
	cfg := &p.server.cfg
	if cfg.PeerProofs == nil {
		return nil
	}
	proofs := *cfg.PeerProofs
	proofs.Admit = func(proved, acts string) (string, error) {
		if proved != acts {
			return "", fmt.Errorf("%s wants to act as %s", proved, acts)
		}
		if cfg.HostOf == nil {
			return "", nil
		}
		host, ok := cfg.HostOf(proved)
		if !ok || !p.known.Load().has(host) {
			return "", fmt.Errorf("%s is not a server of the ensemble: it must be SERVICE/HOST@REALM with a host of the configuration", proved)
		}
		return host, nil
	}
	return &proofs
}

func (p *peers) close() {
	if p != nil && p.votes != nil {
		p.links.Shutdown()
		p.votes.Close()
	}
}

func (p *peers) electionAddresses(id quorum.ID) []peerwire.Address {
	return p.known.Load().find(id, electionOf)
}

func (p *peers) notified(from quorum.ID, n fle.Notification) {
	p.server.putFromPeer(replica.Event{Kind: replica.EventNotification, Server: from, Notification: &n})
}

// Up implements peernet.Handler.
func (p *peers) Up(link zab.LinkID, origin peernet.Origin) {
	p.server.inbox.put(replica.Event{
		Kind: replica.EventLinkUp, Link: link, Outgoing: origin == peernet.Connected, Observers: origin == peernet.CameToObserve,
	})
}

// Down implements peernet.Handler.
func (p *peers) Down(link zab.LinkID) {
	p.server.received.links.Delete(link)
	p.server.inbox.put(replica.Event{Kind: replica.EventLinkDown, Link: link})
}

// Receive implements peernet.Handler. While the disk or the loop is overloaded nothing more is
// read, so the sender has to wait. A transaction that cannot be decoded ends the link before it
// gets into the log, which nobody could read then.
func (p *peers) Receive(link zab.LinkID, batch []zab.Message) error {
	p.server.behind.begin(link, p.server.monoMs())
	defer p.server.behind.end(link)
	p.server.awaitDisk()
	buffer := eventBuffers.Get().(*[]replica.Event)
	defer eventBuffers.Put(buffer)
	events := (*buffer)[:0]
	of := portion{link: p.server.received.linkOf(link), inStep: link == zab.LinkID(p.server.received.leader.Load()), delays: run{of: &p.server.received.delays}}
	var err error
	for i := range batch {
		var timeMs int64
		if timeMs, err = readable(&batch[i]); err != nil {
			break
		}
		spans := p.arrived(&of, link, &batch[i], timeMs)
		events = append(events, replica.Event{Kind: replica.EventMessage, Link: link, Message: &batch[i], Spans: int32(min(spans, zab.CumulativeMax))})
	}
	p.server.received.note(&of)
	p.server.putFromPeer(events...)
	clear(events)
	*buffer = events
	return err
}

// eventBuffers hold the events of what arrives in one read. The inbox copies them.
var eventBuffers = sync.Pool{New: func() any { return new([]replica.Event) }}

// readable returns when a transaction that a leader has sent was decided, in ms since 1970, or
// what is wrong with it. A configuration must be one that this server can read: otherwise its
// acknowledgement would help to put an ensemble in force that it does not know.
func readable(m *zab.Message) (timeMs int64, err error) {
	switch m.Kind {
	case zab.KindProposal, zab.KindInform, zab.KindInformAndActivate:
	case zab.KindNewLeader:
		if _, err := ensemble.Parse(string(m.Payload)); err != nil && ensemble.VersionOf(m.Payload) > 0 {
			return 0, fmt.Errorf("the leader has a configuration that this server cannot read: %w", err)
		}
		return 0, nil
	default:
		return 0, nil
	}
	header, body, _, err := txn.Decode(m.Payload)
	if err == nil && header.Zxid != m.Zxid {
		err = fmt.Errorf("it says that it is %v", header.Zxid)
	}
	if err == nil && header.Op == zk.OpReconfig {
		if _, err = ensemble.Parse(string(body.Data)); err != nil {
			return 0, fmt.Errorf("the leader sent a configuration of the ensemble that this server cannot read, %v: %w; "+
				"if another one has replaced it since, stop this server and move its directory away, except myid", m.Zxid, err)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("the leader sent a transaction that this server cannot read, %v: %w; the leader may have a newer version", m.Zxid, err)
	}
	return header.Time, nil
}

// Snapshot implements peernet.Handler.
func (p *peers) Snapshot(link zab.LinkID, r io.Reader) error {
	state, err := replicadisk.LoadStream(&incoming{in: r, server: p.server, link: link}, p.server.cfg.durableOptions())
	if err != nil {
		return err
	}
	p.server.inbox.put(replica.Event{Kind: replica.EventLoaded, Link: link, State: state})
	return nil
}

// Moves implements peernet.Handler.
func (p *peers) Moves(link zab.LinkID) {
	p.server.inbox.put(replica.Event{Kind: replica.EventMoves, Link: link})
}

// dropStale closes connections to a leader that is no longer the leader: they were made before
// this server changed its role. A failed attempt is reported as link 0, but only the attempt of
// the present role. What the step itself makes stale is ignored by the replica.
func (s *Server) dropStale(batch []replica.Event) {
	p := s.peers
	if p == nil {
		return
	}
	for i := range batch {
		e := &batch[i]
		if e.Kind == replica.EventLinkDown {
			s.meters.endSync(e.Link)
		}
		switch {
		case e.Kind == replica.EventLinkUp && e.Outgoing && e.Link == p.outgoing:
			p.up = true
		case e.Kind == replica.EventLinkUp && e.Outgoing:
			p.links.Close(e.Link)
			*e = replica.Event{Kind: replica.EventTick}
		case e.Kind == replica.EventLinkDown && e.Link == p.outgoing && !p.up:
			e.Link = 0
		}
	}
}

// tellPeers sends what a step has for the other servers.
func (s *Server) tellPeers(effects *replica.Effects) {
	if s.peers == nil {
		return
	}
	for i := range effects.Votes {
		s.peers.votes.Send(effects.Votes[i].To, effects.Votes[i].Notification)
	}
	if len(effects.Links) == 0 {
		return
	}
	for i := range effects.Links {
		s.peers.carryOut(&effects.Links[i])
	}
	s.peers.links.Flush()
	s.busy.take(s.replica.Heartbeats)
}

// carryOut carries out one effect on a link.
func (p *peers) carryOut(e *zab.Effect) {
	s := p.server
	switch e.Kind {
	case zab.EffectSend:
		p.links.Send(e.Link, &e.Message)
		s.meters.noteSent(e.Link, e.Message.Kind)
	case zab.EffectClose:
		if e.OK {
			p.links.Refuse(e.Link, fmt.Errorf("another one has its number, %d: two servers must not have the same myid", e.Server))
		}
		p.links.Close(e.Link)
		s.meters.endSync(e.Link)
	case zab.EffectConnect:
		p.up = false
		of := quorumOf
		if e.Master {
			of = s.cfg.ObserverAddresses
		}
		addresses := p.known.Load().find(e.Server, of)
		if len(addresses) == 0 {
			p.outgoing = p.links.Connect(nil, 0) // this attempt ends at once
			return
		}
		if e.Master {
			s.tellSeldom("connecting to an observer master", "id", int64(e.Server))
			p.outgoing = p.links.ConnectOnce(addresses, s.cfg.silence())
			return
		}
		s.tellSeldom("connecting to the leader", "leader", int64(e.Server))
		p.outgoing = p.links.Connect(addresses, s.cfg.silence())
	case zab.EffectSendSnapshot:
		snapshot := s.beginSnapshot()
		s.cfg.Logger.Info("sending a snapshot to a learner", "zxid", e.Zxid.String())
		p.links.SendSnapshot(e.Link, func(out io.Writer) error {
			err := snapshot.Stream(out, s.halted)
			if err != nil && !errors.Is(err, errStopped) {
				s.cfg.Logger.Warn("snapshot for a learner", "error", err)
			}
			return err
		})
	case zab.EffectReadLog:
		link, zxid, to := e.Link, e.Zxid, e.To
		s.task(func() {
			p.links.AwaitSent(link)
			p.reading.Lock()
			defer p.reading.Unlock()
			records, more, ok := s.disk.data.ReadLog(zxid, to)
			s.inbox.put(replica.Event{Kind: replica.EventLogRead, Link: link, Records: records, More: more, OK: ok})
		})
	}
}
