// Package robust does to a server what nobody should: it kills it under load, fills its disk,
// hangs ten thousand sessions and a million watches on it, and sends it garbage.
//
// All of it is in tests under the build tag robust, because it takes minutes:
// "make robust". ROBUST_KIND names the server, "conclave" if it is not set, or
// "apache-VERSION"; limits that only Conclave promises are only checked for it.
// ROBUST_KILLS is how often the server is killed, 100 if it is not set, and
// ROBUST_EQUAL_KILLS how often servers of the ensemble whose trees are compared are,
// 15 for each of its two runs.
package robust
