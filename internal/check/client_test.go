package check

import "testing"

func TestSessions(t *testing.T) {
	play(t, []history{
		{"two servers", "connected 1 7\nsent 1\nsent 2\ngot 1 1.4\ngot -2 1.4\ngot 2 1.5\nsent 3\nconnected 2 7\nsent 4\ngot 4 1.5", ""},
		{"zxids that say nothing", "connected 1 7\nsent 1\nsent 2\ngot 1 1.4\ngot 2 -", ""},
		{"S1 out of order", "connected 1 7\nsent 1\nsent 2\ngot 2 1.4", "S1"},
		{"S1 twice", "connected 1 7\nsent 1\ngot 1 1.4\ngot 1 1.4", "S1"},
		{"S1 never asked", "connected 1 7\ngot 3 1.4", "S1"},
		{"S1 of the former connection", "connected 1 7\nsent 1\nconnected 2 7\ngot 1 1.4", "S1"},
		{"S2 back on one server", "connected 1 7\nsent 1\nsent 2\ngot 1 1.4\ngot 2 1.3", "S2"},
		{"S2 back on another", "connected 1 7\nsent 1\ngot 1 1.4\nconnected 2 7\ngot -2 1.3", "S2"},
		{"S2 back to an older epoch", "connected 1 7\nsent 1\ngot 1 2.1\nconnected 2 7\nsent 2\ngot 2 1.9", "S2"},
		{"S2 back from what nobody committed", "uncommitted 1.4\nconnected 1 7\nsent 1\ngot 1 1.4\nconnected 2 7\ngot -2 1.3", ""},
		{"S2 back from more than that", "uncommitted 1.4\nconnected 1 7\nsent 1\ngot 1 1.5\nconnected 2 7\ngot -2 1.3", "S2"},
		{"S3 alive again", "connected 1 7\nended\nconnected 2 7", "S3"},
		{"S3 refused, then alive", "connected 1 7\nconnected 2 0\nconnected 3 7", "S3"},
		{"S3 another's session", "connected 1 7\nconnected 2 8", "S3"},
	})
}

func TestRecent(t *testing.T) {
	play(t, []history{
		{"writes and reads", "shown 1.1\nwrite 1.1 1.2\nsynced 1.2 1.2\nsynced 1.1 1.3", ""},
		{"a write before its request", "shown 1.4\nwrite 1.4 1.4", "recent"},
		{"a write in an old epoch", "shown 2.1\nwrite 2.1 1.9", "recent"},
		{"a stale read", "shown 1.4\nsynced 1.4 1.3", "after a sync"},
	})
}

func TestSequences(t *testing.T) {
	play(t, []history{
		{"in any order", "named /q/n0000000001 1.1 1.3\nnamed /q/n0000000003 1.1 1.6\nnamed /q/n0000000002 1.1 1.4", ""},
		{"two parents", "named /q/n0000000001 1.1 1.3\nnamed /r/n0000000001 1.2 1.4", ""},
		{"a parent's second life", "named /q/n0000000001 1.1 1.3\nnamed /q/n0000000001 1.5 1.6", ""},
		{"twice in one transaction", "named /q/n0000000001 1.1 1.3\nnamed /q/n0000000002 1.1 1.3", ""},
		{"the same name", "named /q/n0000000001 1.1 1.3\nnamed /q/n0000000001 1.1 1.4", "was given"},
		{"the same number under another prefix", "named /q/n0000000001 1.1 1.3\nnamed /q/m0000000001 1.1 1.4", "was given"},
		{"a smaller number later", "named /q/n0000000005 1.1 1.3\nnamed /q/n0000000004 1.1 1.4", "order"},
		{"a larger number earlier", "named /q/n0000000005 1.1 1.3\nnamed /q/n0000000006 1.1 1.2", "order"},
		{"no number", "named /q/node 1.1 1.3", "no number"},
		{"half a number", "named /q/n12345x7890 1.1 1.3", "no number"},
	})
}

func TestExpiry(t *testing.T) {
	play(t, []history{
		{"in time", "leads 1 100\nalive 1 7 500\nexpired 1 7 1000 1500", ""},
		{"one of a former leader", "leads 1 100\nexpired 1 7 1000 1100", ""},
		{"X1 too early", "leads 1 100\nalive 1 7 500\nexpired 1 7 1000 1499", "X1"},
		{"X1 a new leader gives the full time", "leads 1 100\nalive 1 7 150\nleads 2 900\nexpired 2 7 1000 1500", "X1"},
		{"by nobody's leader", "leads 1 100\nexpired 2 7 1000 5000", "does not lead"},
		{"X1 received again", "leads 1 100\nalive 1 7 500\nalive 1 7 1400\nexpired 1 7 1000 1600", "X1"},
		{"X2 a server had received from it", "leads 1 100\nalive 1 7 500\nexpired 1 7 1000 1500 600", "X2"},
		{"what a server had received from it in time", "leads 1 100\nalive 1 7 500\nexpired 1 7 1000 1600 600", ""},
		{"ended in time", "opened 7 1000\nleads 1 100\nmaybe 1 7 500\nstepped 1 1530 30\nexpired 1 7 1000 1531\nstepped 1 9999 30", ""},
		{"X3 too late", "opened 7 1000\nleads 1 100\nmaybe 1 7 500\nstepped 1 1531 30", "X3"},
		{"X3 never told", "opened 7 1000\nleads 1 100\nstepped 1 1131 30", "X3"},
		{"its client has ended it", "opened 7 1000\nleads 1 100\ndecided 1 7\nstepped 1 2000 30", ""},
		{"X3 of a former leader's decision", "opened 7 1000\nleads 1 100\ndecided 1 7\nleads 2 200\nstepped 2 1231 30", "X3"},
		{"X3 of one that it has begun itself", "leads 1 100\nopens 1 7 500\nopened 7 1000\nstepped 1 1530 30\nstepped 1 1531 30", "X3"},
		{"ended before anybody has seen it", "leads 1 100\nopens 1 7 500\nexpired 1 7 1000 1520\nopened 7 1000\nalive 1 7 1600\nstepped 1 9999 30", ""},
		{"X1 too early, before anybody has seen it", "leads 1 100\nopens 1 7 500\nexpired 1 7 1000 1499", "X1"},
		{"X1 decided to begin twice", "leads 1 100\nopens 1 7 500\nopens 1 7 900\nexpired 1 7 1000 1520", ""},
		{"X3 seen late, and not ended", "leads 1 100\nopens 1 7 500\nopened 7 1000\nalive 1 7 1600\nstepped 1 2630 30\nstepped 1 2631 30", "X3"},
		{"X4 a message waits that came in time", "leads 1 100\nalive 1 7 500\nwaits 1 7 1000 1499", "X4"},
		{"X4 one waits that came in time after the beginning", "leads 1 100\nwaits 1 7 1000 1099", "X4"},
		{"a message waits that came late", "leads 1 100\nalive 1 7 500\nwaits 1 7 1000 1500", ""},
		{"of another leader", "leads 1 100\nopened 7 1000\nstepped 1 2000 30", ""},
		{"it is over", "opened 7 1000\nleads 1 100\nclosed 7\nstepped 1 2000 30", ""},
	})
}

func TestKept(t *testing.T) {
	play(t, []history{
		{"as told", "creating /a\ncreated /a\ncreating /b\ncreating /c\ncreated /c\ndeleting /c\ndeleted /c\nfinal /a", ""},
		{"unknown ones may be there", "creating /a\ncreating /b\nfinal /b", ""},
		{"an unknown deletion", "creating /a\ncreated /a\ndeleting /a\nfinal", ""},
		{"an unknown deletion that was not", "creating /a\ncreated /a\ndeleting /a\nfinal /a", ""},
		{"lost", "creating /a\ncreated /a\ncreating /b\ncreated /b\nfinal /b", "/a is gone"},
		{"back from the dead", "creating /a\ncreated /a\ndeleting /a\ndeleted /a\nfinal /a", "deletion was acknowledged"},
		{"from nowhere", "creating /a\ncreated /a\nfinal /a /x", "nobody has created"},
		{"refused, and there", "creating /a\nnot-created /a\nfinal /a", "nobody has created"},
		{"a deletion that was refused", "creating /a\ncreated /a\ndeleting /a\nnot-deleted /a\nfinal", "/a is gone"},
	})
}

func TestWatches(t *testing.T) {
	const some = open + "txn 1.2 create /a data=x\ntxn 1.3 set /a 1\ntxn 1.4 create /a/b\ntxn 1.5 acl /a 1\ntxn 1.6 delete /a/b\ntxn 1.7 delete /a\ntxn 1.8 create /a\n"
	// The creation of /a was not reported to a client that could not read it at
	// that time.
	const both = "armed data /a 1.6\naway\nrearming data=/a missing=/a\n"
	play(t, []history{
		{"data", some + "armed data /a 1.2\nreply 1.2\nevent changed /a 1.3\nreply 1.4", ""},
		{"existence", some + "armed missing /a 1.1\nevent created /a 1.2\nreply 1.3", ""},
		{"children", some + "armed child /a 1.3\nreply 1.3\nevent children /a 1.4\nreply 1.6", ""},
		{"deletion ends both", some + "armed child /a 1.6\narmed data /a 1.6\nevent deleted /a 1.7\nreply 1.8", ""},
		{"an ACL is no change", some + "armed data /a 1.4\nreply 1.6", ""},
		{"one entry for two watches", some + "armed data /a 1.3\narmed data /a 1.5\nevent deleted /a 1.7\nevent deleted /a 1.7", "V1"},
		{"V1 of no watch", some + "event changed /a 1.3", "V1"},
		{"V1 twice", some + "armed data /a 1.2\nevent changed /a 1.3\nevent changed /a 1.3", "V1"},
		{"V1 of another kind", some + "armed data /a 1.3\nevent children /a 1.4", "V1"},
		{"V1 of another path", some + "armed data /b 1.1\nevent changed /a 1.3", "V1"},
		{"V1 deletion of what was missing", some + "armed missing /a 1.1\nevent deleted /a 1.7", "V1"},
		{"V1 the first change was not told", some + "armed child /a 1.3\nevent children /a 1.6", "not told"},
		{"V1 of a watch that is not wanted", some + "armed data /a 1.2\nunwatch data /a\nevent changed /a 1.3", "V1"},
		{"V2 has not happened", some + "armed data /a 1.3\nevent changed /a 1.6", "V2"},
		{"V2 not then", some + "armed missing /a 1.1\nevent created /a 1.3", "V2"},
		{"V2 before the watch", some + "armed data /a 1.3\nevent changed /a 1.3", "V2"},
		{"V2 children that have not changed", some + "armed child /a 1.4\nevent children /a 1.5", "V2"},
		{"V2 without a zxid", some + "armed data /a 1.2\nevent changed /a -", "V2"},
		{"V3 a reply shows it first", some + "armed data /a 1.2\nreply 1.3", "V3"},
		{"V3 much later", some + "armed child /a 1.4\nreply 1.5\nreply 1.8", "V3"},
		{"V3 a deletion", some + "armed data /a 1.6\nreply 1.7", "V3"},
		{"V3 a creation", some + "armed missing /a 1.7\nreply 1.8", "V3"},
		{"V4 set again and told", some + "armed data /a 1.2\naway\nrearming data=/a\nevent changed /a -\nrearmed 1.3\nreply 1.4", ""},
		{"V4 set again and nothing missed", some + "armed data /a 1.3\naway\nrearming data=/a\nrearmed 1.6\nevent deleted /a 1.7\nreply 1.8", ""},
		{"V4 in two requests", some + "armed data /a 1.3\narmed child /a 1.4\naway\nrearming data=/a\nrearming child=/a\nrearmed 1.5\nrearmed 1.5\nevent children /a 1.6", ""},
		{"V4 missed", some + "armed data /a 1.2\naway\nrearming data=/a\nrearmed 1.3", "V4"},
		{"V4 missed children", some + "armed child /a 1.3\naway\nrearming child=/a\nrearmed 1.6", "V4"},
		{"V4 missed creation", some + "armed missing /a 1.1\naway\nrearming missing=/a\nrearmed 1.8", "V4"},
		{"V4 come and gone", some + "armed missing /a 1.1\naway\nrearming missing=/a\nrearmed 1.7\nevent created /a 1.8", ""},
		{"V4 missed between two servers", some + "armed data /a 1.2\naway\nrearming data=/a\naway\nrearming data=/a\nrearmed 1.5", "V4"},
		{"V3 never set again", some + "armed data /a 1.2\naway\nreply 1.4", "V3"},
		{"both watches, and it is there", some + both + "event created /a -\nrearmed 1.6\nevent deleted /a 1.7\nreply 1.8", ""},
		{"both, and it is gone", some + both + "event deleted /a -\nrearmed 1.7\nevent created /a 1.8\nreply 1.8", ""},
		{"both, and it has changed", some + "armed data /a 1.2\naway\nrearming data=/a missing=/a\nevent changed /a -\nevent created /a -\nrearmed 1.6\nreply 1.8", ""},
		{"both, and its children watched too", some + "armed child /a 1.6\narmed data /a 1.6\naway\nrearming data=/a missing=/a child=/a\nevent deleted /a -\nevent deleted /a -\nrearmed 1.7\nevent created /a 1.8\nreply 1.8", ""},
		{"existence and children, and it is gone", some + "armed child /a 1.6\narmed missing /a 1.1\naway\nrearming child=/a missing=/a\nevent deleted /a -\nrearmed 1.7\naway\nreply 1.8", ""},
		{"what is left ends with the connection", some + both + "event created /a -\nrearmed 1.6\naway\nreply 1.8", ""},
		{"what is left is a watch again", some + both + "event created /a -\nrearmed 1.6\narmed data /a 1.6\naway\nrearming data=/a\nrearmed 1.7", "V4"},
		{"V1 what is left after the connection", some + both + "event created /a -\nrearmed 1.6\naway\nevent deleted /a 1.7", "V1"},
		{"V1 both, and it fires twice", some + both + "event created /a -\nrearmed 1.6\nevent deleted /a 1.7\nevent created /a 1.8", "V1"},
		{"V1 both, changed, and told again", some + "armed data /a 1.2\naway\nrearming data=/a missing=/a\nevent changed /a -\nevent created /a -\nrearmed 1.6\nevent deleted /a 1.7", "V1"},
		{"V1 one for existence alone", some + "armed missing /a 1.1\naway\nrearming missing=/a\nevent created /a -\nrearmed 1.6\nevent deleted /a 1.7", "V1"},
		{"V1 gone, for existence alone", some + "armed missing /a 1.1\naway\nrearming missing=/a\nevent deleted /a -", "V1"},
		{"V3 both, and what is left does not fire", some + both + "event created /a -\nrearmed 1.6\nreply 1.7", "V3"},
		{"V3 both, gone, and come again", some + both + "event deleted /a -\nrearmed 1.7\nreply 1.8", "V3"},
		{"V4 both, and it has changed", some + "armed data /a 1.2\naway\nrearming data=/a missing=/a\nevent created /a -\nrearmed 1.6", "V4"},
		{"V4 both, and nothing comes", some + both + "rearmed 1.6", "V4"},
		{"V4 not named", some + "armed data /a 1.2\naway\nrearming child=/a\nrearmed 1.4\nevent deleted /a 1.7", "V1"},
	})
}
