package check

import "testing"

func TestRights(t *testing.T) {
	const some = open + "txn 1.2 create /a acl=alice:rwcda,bob:r data=x xid=1\nis alice\n"
	play(t, []history{
		{"may", some + "read get /a 1.2 ok data=x c=1.2\ntxn 1.3 set /a 1 xid=2\nwrote set /a 1.3 ok version=1 xid=2\n" +
			"txn 1.4 create /a/b acl=all:r xid=3\nwrote create /a/b 1.4 ok list=all:r xid=3\ntxn 1.5 delete /a/b xid=4\nwrote delete /a/b 1.5 ok xid=4", ""},
		{"may not", some + "is bob\ntxn 1.3 error noauth xid=2\nwrote set /a 1.3 noauth xid=2\nwrote create /a/b 1.3 noauth xid=2\n" +
			"wrote setacl /a 1.3 noauth xid=2\nis eve\nread get /a 1.2 noauth\nread exists /a 1.2 noauth", ""},
		{"a list", some + "read list /a 1.2 ok list=alice:rwcda,bob:r c=1.2 data=x", ""},
		{"auth stands for the client that asks", open + "is alice\ntxn 1.2 create /a acl=alice:rw xid=1\nwrote create /a 1.2 ok list=auth:rw xid=1", ""},
		{"auth for another", open + "is alice\ntxn 1.2 create /a acl=bob:rw xid=1\nwrote create /a 1.2 ok list=auth:rw xid=1", "W2"},
		{"another list", some + "read list /a 1.2 ok list=alice:rwcda c=1.2", "getACL"},
		{"shown to a client that may not", some + "is eve\nread get /a 1.2 ok data=x c=1.2", "keeps from it"},
		{"kept from a client that may", some + "is bob\nread get /a 1.2 noauth", "has by"},
		{"W5 written by a client that may not", some + "is bob\ntxn 1.3 set /a 1 xid=2\nwrote set /a 1.3 ok version=1 xid=2", "W5"},
		{"W5 created by a client that may not", some + "is bob\ntxn 1.3 create /a/b xid=2\nwrote create /a/b 1.3 ok xid=2", "W5"},
		{"W3 refused to a client that may", some + "txn 1.3 error noauth xid=2\nwrote set /a 1.3 noauth xid=2", "W3"},
		{"setACL", some + "txn 1.3 acl /a 1 acl=all:rwcda xid=2\nwrote setacl /a 1.3 ok list=all:rwcda acl=1 xid=2\nis eve\nread get /a 1.3 ok data=x c=1.2 acl=1", ""},
		{"setACL without effect", some + "txn 1.3 error exists xid=2\nwrote setacl /a 1.3 ok list=all:rwcda acl=1 xid=2", "W2"},
		{"setACL to another list", some + "txn 1.3 acl /a 1 acl=all:r xid=2\nwrote setacl /a 1.3 ok list=all:rwcda acl=1 xid=2", "W2"},
		{"setACL refused", some + "txn 1.3 error refused xid=2\nwrote setacl /a 1.3 refused v=0 xid=2", "W3"},
	})
}

func TestQuotas(t *testing.T) {
	const some = open + "txn 1.2 create /y data=xx\ntxn 1.3 create /zookeeper/quota/y\n" +
		"txn 1.4 create /zookeeper/quota/y/zookeeper_limits data=count=9,countHardLimit=2;byteHardLimit=10\n" +
		"txn 1.5 create /zookeeper/quota/y/zookeeper_stats\n"
	play(t, []history{
		{"counted", some + "usage /y 1 2\ntxn 1.6 create /y/a data=xyz\nusage /y 2 5\ntxn 1.7 set /y/a 1 data=x\nusage /y 2 3\ntxn 1.8 delete /y/a\nusage /y 1 2", ""},
		{"Q1 not counted", some + "txn 1.6 create /y/a data=xyz\nusage /y 1 2", "Q1"},
		{"Q1 of none", open + "usage /y 1 2", "Q1"},
		{"Q1 of one that has gone", some + "txn 1.6 delete /zookeeper/quota/y/zookeeper_limits\nusage /y 1 2", "Q1"},
		{"set again", some + "txn 1.6 delete /zookeeper/quota/y/zookeeper_limits\ntxn 1.7 create /y/a\ntxn 1.8 create /zookeeper/quota/y/zookeeper_limits\nusage /y 2 2", ""},
		{"Q2 within", some + "newest 1.5\ntxn 1.6 create /y/a data=x xid=2\nwrote create /y/a 1.6 ok data=x xid=2", ""},
		{"Q2 refused, and within", some + "newest 1.5\ntxn 1.6 error quota xid=2\nwrote create /y/a 1.6 quota data=x xid=2", "Q2"},
		{"Q2 too many", some + "txn 1.6 create /y/a xid=1\nnewest 1.6\ntxn 1.7 create /y/b xid=2\nwrote create /y/b 1.7 ok xid=2", "Q2"},
		{"Q2 too many, refused", some + "txn 1.6 create /y/a xid=1\nnewest 1.6\ntxn 1.7 error quota xid=2\nwrote create /y/b 1.7 quota xid=2", ""},
		{"Q2 too many after another on its way", some + "newest 1.5\ntxn 1.6 create /y/a xid=1\ntxn 1.7 create /y/b xid=2\nwrote create /y/b 1.7 ok xid=2", ""},
		{"Q2 too long", some + "newest 1.5\ntxn 1.6 set /y 1 data=xxxxxxxxxxx xid=2\nwrote set /y 1.6 ok data=xxxxxxxxxxx version=1 xid=2", "Q2"},
		{"Q2 a read of it", some + "read get /zookeeper/quota/y/zookeeper_stats 1.5 ok data=count=1,bytes=2", ""},
		{"Q1 a read of something else", some + "read get /zookeeper/quota/y/zookeeper_stats 1.5 ok data=count=2,bytes=2", "Q1"},
	})
}

func TestReaped(t *testing.T) {
	const some = open + "txn 1.2 create /c container\ntxn 1.3 create /c/x\ntxn 1.4 create /l ttl=100 at=1000\n"
	play(t, []history{
		{"in time", some + "overdue 1100\ntxn 1.5 delete /c/x\ntxn 1.6 reap /c\ntxn 1.7 reap /l at=1101\noverdue 9999", ""},
		{"set again", some + "txn 1.5 set /l 1 at=1050\noverdue 1150\ntxn 1.6 reap /l at=1151", ""},
		{"R1 a plain one", some + "txn 1.5 create /p\ntxn 1.6 reap /p", "R1"},
		{"R2 it never had a child", open + "txn 1.2 create /c container\ntxn 1.3 reap /c", "R2"},
		{"R2 only in its life before", some + "txn 1.5 delete /c/x\ntxn 1.6 delete /c\ntxn 1.7 create /c container\ntxn 1.8 reap /c", "R2"},
		{"R1 with a child", some + "txn 1.5 reap /c", "M2"},
		{"R3 too early", some + "txn 1.5 reap /l at=1100", "R3"},
		{"R3 it was set meanwhile", some + "txn 1.5 set /l 1 at=1050\ntxn 1.6 reap /l at=1101", "R3"},
		{"a container is overdue", some + "txn 1.5 delete /c/x\noverdue 1000", "overdue"},
		{"a TTL is overdue", some + "overdue 1101", "overdue"},
	})
}

func TestWatchesThatStay(t *testing.T) {
	const some = open + "txn 1.2 create /a data=x\ntxn 1.3 set /a 1\ntxn 1.4 create /a/b\ntxn 1.5 acl /a 1\ntxn 1.6 delete /a/b\ntxn 1.7 delete /a\ntxn 1.8 create /a\n"
	play(t, []history{
		{"at a path", some + "stays at /a 1.2\nevent changed /a 1.3\nevent children /a 1.4\nreply 1.5\nevent children /a 1.6\nevent deleted /a 1.7\nevent created /a 1.8\nreply 1.8", ""},
		{"below", some + "stays below /a 1.2\nevent changed /a 1.3\nevent created /a/b 1.4\nevent deleted /a/b 1.6\nevent deleted /a 1.7\nreply 1.7\nevent created /a 1.8", ""},
		{"both, and one of one shot", some + "stays at /a 1.2\nstays below / 1.2\narmed data /a 1.2\nevent changed /a 1.3\nreply 1.3", ""},
		{"V6 one is missing", some + "stays at /a 1.2\nevent children /a 1.4", "V6"},
		{"V6 once only", some + "stays at /a 1.2\nevent changed /a 1.3\nreply 1.4", "V6"},
		{"V6 after a reply", some + "stays below /a 1.3\nreply 1.4", "V6"},
		{"V6 twice", some + "stays at /a 1.2\nevent changed /a 1.3\nevent changed /a 1.3", "V6"},
		{"V1 a recursive one learns of no children", some + "stays below /a 1.3\nevent children /a 1.4", "V1"},
		{"V1 beside it", some + "stays below /a 1.2\nevent changed /ab 1.3", "V1"},
		{"set again", some + "stays at /a 1.2\naway\nrearming stays=/a\nrearmed 1.5\nevent children /a 1.6\nreply 1.6", ""},
		{"V6 set again and lost", some + "stays at /a 1.2\naway\nrearming stays=/a\nrearmed 1.5\nreply 1.6", "V6"},
		{"V1 not named", some + "stays at /a 1.2\naway\nrearming below=/b\nrearmed 1.5\nevent children /a 1.6", "V1"},
		{"not wanted any more", some + "stays at /a 1.2\nunwanted /a\nreply 1.3\nevent children /a 1.4\naway\nreply 1.8", ""},
		{"V1 not wanted, on another connection", some + "stays at /a 1.2\nunwanted /a\naway\nevent children /a 1.4", "V1"},
		{"V6 wanted again", some + "stays at /a 1.2\nunwanted /a\nstays at /a 1.3\nreply 1.4", "V6"},
		{"V1 taken off", some + "stays at /a 1.2\ntaken /a\nreply 1.8\nevent created /a 1.8", "V1"},
		{"V5 of what is hidden", open + "txn 1.2 create /a acl=alice:r\ntxn 1.3 set /a 1\nis eve\nstays at /a 1.2\nevent changed /a 1.3", "V5"},
		{"nothing of what is hidden", open + "txn 1.2 create /a acl=alice:r\ntxn 1.3 set /a 1\nis eve\nstays at /a 1.2\narmed data /a 1.2\nreply 1.3", ""},
		{"V1 used up by what is hidden", open + "txn 1.2 create /a acl=alice:r\ntxn 1.3 set /a 1\ntxn 1.4 acl /a 1 acl=all:r\ntxn 1.5 set /a 2\nis eve\narmed data /a 1.2\nreply 1.4\nevent changed /a 1.5", "V1"},
	})
}
