package zoocfg

import (
	"path/filepath"
	"time"
)

// forOthers are the settings for features that only an ensemble has, and whether the value
// given differs from the default, so that it asks for the feature.
func (r *reader) forOthers() map[string]bool {
	c, peers, sasl := &r.out.Server, &r.out.PeerTLS, &r.out.SASL.Peers
	return map[string]bool{
		"leaderServes": c.NoClientsOfLeader, "localSessionsEnabled": c.LocalSessions, "localSessionsUpgradingEnabled": c.UpgradeSessions,
		"reconfigEnabled": c.ReconfigEnabled, "conclave.reconfigSecurePorts": c.Reconfig.SecurePorts,
		"multiAddress.enabled": c.Reconfig.MultiAddress, "quorumListenOnAllIPs": r.listenOnAll, "peerType": r.observer,
		oracleKey: r.oracle != "", ownLineKey: r.ownLine != "", "observerMasterPort": c.ObserverPort > 0,
		"cnxTimeout": c.ConnectTime != 5*time.Second, "conclave.silenceMs": c.SilenceTime > 0, "conclave.electionFinalizeMs": c.ElectionFinalize > 0,
		"sslQuorum": peers.Serves, "portUnification": peers.PlainToo, membersOnly: peers.MembersOnly,
		"quorum.auth.enableSasl": sasl.Serves, "quorum.auth.serverRequireSasl": sasl.ServerMust, "quorum.auth.learnerRequireSasl": sasl.LearnerMust,
	}
}

// alone notes the settings for ensembles in the configuration of a standalone server, and
// ignores them.
func (r *reader) alone() {
	c := &r.out.Server
	asked := r.forOthers()
	for _, e := range r.taken {
		if asked[e.Key] && r.seen[e.Key] == e {
			r.out.Notes = append(r.out.Notes, e.where()+": "+e.Key+": has no meaning here: it is for an ensemble, and this server is alone")
		}
	}
	c.NoClientsOfLeader, c.LocalSessions, c.UpgradeSessions = false, false, false
	if c.DataDir == "" || r.fsys == nil {
		return
	}
	epochs := filepath.Join(c.DataDir, "version-2", "currentEpoch")
	if _, err := r.fsys.Stat(epochs); err == nil {
		r.out.Remarks = append(r.out.Remarks, epochs+" is that of a server of an ensemble, and this one starts alone: it takes writes that "+
			"the others do not have, with zxids that they may give to their own. Bring the server lines back if that is not meant; else "+
			"move its directory away, but for myid, before it joins them again, or theirs")
	}
}
