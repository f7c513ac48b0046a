// Package robust mistreats a server: it kills it under load, fills its disk or takes its files
// away, opens ten thousand sessions and a million watches on it, and sends it garbage.
//
// All of it is in tests under the build tag robust, because it takes minutes: "make
// robust". ROBUST_KIND names the server, "conclave" by default, or "apache-VERSION"; limits
// that only Conclave promises are checked only for it. ROBUST_KILLS is how often the server
// is killed, 100 by default. ROBUST_EQUAL_KILLS is how often servers are killed in the
// ensemble whose trees are compared, 15 by default for each of its two runs.
package robust
