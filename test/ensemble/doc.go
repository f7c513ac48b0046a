// Package ensemble tests that servers of Conclave and of Apache ZooKeeper can form one
// ensemble: in every mixture and role, joining empty, behind and ahead, when the leader is
// killed, when every server is replaced by one of the other kind and back, and when the
// ensemble itself changes, always under load.
//
// All of it is in tests under the build tag interop: "make interop-ensemble". Each prints
// its figures. ENSEMBLE_GUEST names the server that is combined with Apache's: "conclave",
// the default, or "apache-VERSION", which shows what a test finds when all servers are
// Apache's.
package ensemble
