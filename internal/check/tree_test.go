package check

import "testing"

const open = "txn 1.1 open session=1\n"

func TestModel(t *testing.T) {
	play(t, []history{
		{"a life", open + "txn 1.2 create /a data=x\ntxn 1.3 set /a 1 data=y\ntxn 1.4 acl /a 1\ntxn 1.5 delete /a\ntxn 1.6 create /a", ""},
		{"M1 the same zxid again", open + "txn 1.1 create /a", "M1"},
		{"M1 back in time", open + "txn 1.3 create /a\ntxn 1.2 create /b", "M1"},
		{"M2 created twice", open + "txn 1.2 create /a\ntxn 1.3 create /a", "M2"},
		{"M2 no parent", open + "txn 1.2 create /a/b", "M2"},
		{"M2 under a deleted parent", open + "txn 1.2 create /a\ntxn 1.3 delete /a\ntxn 1.4 create /a/b", "M2"},
		{"M2 under an ephemeral", open + "txn 1.2 create /a eph\ntxn 1.3 create /a/b", "M2"},
		{"M2 deletes nothing", open + "txn 1.2 delete /a", "M2"},
		{"M2 deletes twice", open + "txn 1.2 create /a\ntxn 1.3 delete /a\ntxn 1.4 delete /a", "M2"},
		{"M2 deletes a parent", open + "txn 1.2 create /a\ntxn 1.3 create /a/b\ntxn 1.4 delete /a", "M2"},
		{"M3 sets nothing", open + "txn 1.2 set /a 1", "M3"},
		{"M3 leaves a version out", open + "txn 1.2 create /a\ntxn 1.3 set /a 2", "M3"},
		{"M3 the same version again", open + "txn 1.2 create /a\ntxn 1.3 set /a 1\ntxn 1.4 set /a 1", "M3"},
		{"M3 an ACL's version", open + "txn 1.2 create /a\ntxn 1.3 acl /a 2", "M3"},
		{"M2 in a multi", open + "txn 1.2 create /a ; create /a", "M2"},
		{"a multi that failed changes nothing", open + "txn 1.2 create /a ; error nonode\ntxn 1.3 create /a", ""},
		{"M5 a request done twice", open + "txn 1.2 create /a xid=3\ntxn 1.3 error exists xid=3", "M5"},
		{"M5 what the server asks itself", open + "txn 1.2 close\ntxn 1.3 close", ""},
		{"M6 after a later request", open + "txn 1.2 create /a xid=3\ntxn 1.3 create /b xid=2", "M6"},
		{"M6 after a later answer", open + "answered 4 1.2\nanswered 5 1.4\ntxn 1.3 create /a xid=3", "M6"},
		{"M6 before an older answer", open + "txn 1.2 create /a xid=3\nanswered 4 1.1", "M6"},
		{"in time", open + "txn 1.2 create /a xid=3\nanswered 3 1.2\nanswered 5 1.3\ntxn 1.3 create /b xid=4\ntxn 1.4 create /c xid=6", ""},
		{"a refusal may come late", open + "txn 1.2 create /a xid=3\nanswered 4 1.2\ntxn 1.3 error exists xid=2", ""},
		{"a container has children", open + "txn 1.2 create /a container\ntxn 1.3 create /a/b", ""},
	})
}

func TestEphemerals(t *testing.T) {
	play(t, []history{
		{"go with their session", open + "txn 1.2 create /a eph\ntxn 1.3 create /b eph\ntxn 1.4 close /b /a\nowned 1", ""},
		{"one was deleted before", open + "txn 1.2 create /a eph\ntxn 1.3 delete /a\ntxn 1.4 close\ntxn 1.5 close", ""},
		{"E1 an id given twice", open + "txn 1.2 open session=1", "E1"},
		{"E1 an id given again", open + "txn 1.2 close\ntxn 1.3 open session=1", "E1"},
		{"E2 of no session", "txn 1.1 create /a eph session=9", "E2"},
		{"E2 of a session that has ended", open + "txn 1.2 close\ntxn 1.3 create /a eph", "E2"},
		{"E3 one is left", open + "txn 1.2 create /a eph\ntxn 1.3 create /b eph\ntxn 1.4 close /a", "E3"},
		{"E3 all are left", open + "txn 1.2 create /a eph\ntxn 1.3 close", "E3"},
		{"E3 one of another", open + "txn 1.2 create /a eph\ntxn 1.3 open session=2\ntxn 1.4 close /a session=2", "E3"},
		{"E3 one that has gone", open + "txn 1.2 create /a eph\ntxn 1.3 delete /a\ntxn 1.4 close /a", "E3"},
		{"E3 a persistent one", open + "txn 1.2 create /a\ntxn 1.3 close /a", "E3"},
		{"E3 a tree with an orphan", open + "txn 1.2 create /a eph\ntxn 1.3 close /a\nowned 1 /a", "E3"},
		{"E3 a tree without one", open + "txn 1.2 create /a eph\nowned 1", "E3"},
		{"E5 before and after", open + "txn 1.2 close\nattached 1 1.1\nattached 1 1.2", "E5"},
		{"E4 a session that never was", "txn 1.1 close session=5", "E4"},
	})
}

func TestReads(t *testing.T) {
	const some = open + "txn 1.2 create /a data=x\ntxn 1.3 create /a/b\ntxn 1.4 set /a 1 data=yy\ntxn 1.5 create /a/e eph\ntxn 1.6 delete /a/b\n"
	play(t, []history{
		{"of every time", some + "read get /a 1.3 ok data=x c=1.2 count=1\nread get /a 1.6 ok data=yy c=1.2 m=1.4 version=1 count=1\n" +
			"read exists /a/b 1.5 ok c=1.3\nread exists /a/b 1.6 nonode\nread exists /a/e 1.6 ok c=1.5 owner=1\n" +
			"read children /a 1.5 ok data=yy names=e,b c=1.2 m=1.4 version=1\nread exists /c 1.6 nonode", ""},
		{"the future", some + "read get /a 1.7 ok data=yy", "nobody has shown"},
		{"not there yet", some + "read get /a 1.1 ok data=x c=1.2", "not there"},
		{"gone already", some + "read exists /a/b 1.6 ok c=1.3", "not there"},
		{"there, and not found", some + "read exists /a/b 1.5 nonode", "finds nothing"},
		{"old data", some + "read get /a 1.6 ok data=x c=1.2 m=1.4 version=1 count=1", "other data"},
		{"new data", some + "read get /a 1.3 ok data=yy c=1.2 count=1", "other data"},
		{"an old version", some + "read get /a 1.6 ok data=yy c=1.2 m=1.4 count=1", "version"},
		{"an old mzxid", some + "read get /a 1.6 ok data=yy c=1.2 version=1 count=1", "mzxid"},
		{"another czxid", some + "read exists /a/e 1.6 ok c=1.4 owner=1", "czxid"},
		{"another ACL version", some + "read exists /a/e 1.6 ok c=1.5 owner=1 acl=1", "ACL"},
		{"another owner", some + "read exists /a/e 1.6 ok c=1.5 owner=2", "owner"},
		{"no owner", some + "read exists /a/e 1.6 ok c=1.5", "owner"},
		{"a wrong count", some + "read get /a 1.6 ok data=yy c=1.2 m=1.4 version=1 count=2", "children"},
		{"a name too few", some + "read children /a 1.5 ok data=yy names=b c=1.2 m=1.4 version=1", "names"},
		{"a name of before", some + "read children /a 1.6 ok data=yy names=b c=1.2 m=1.4 version=1", "names"},
		{"changes of children", some + "read get /a 1.6 ok data=yy c=1.2 m=1.4 version=1 count=1 changes=3 p=1.6", ""},
		{"changes in another life", open + "txn 1.2 create /a\ntxn 1.3 create /a/b\ntxn 1.4 delete /a/b ; delete /a ; create /a ; create /a/b\n" +
			"read exists /a 1.4 ok c=1.4 count=1 changes=1 p=1.4", ""},
		{"a change too many", some + "read get /a 1.6 ok data=yy c=1.2 m=1.4 version=1 count=1 changes=4", "changes of children"},
		{"an old pzxid", some + "read get /a 1.6 ok data=yy c=1.2 m=1.4 version=1 count=1 p=1.5", "last by"},
		{"another ctime", some + "read get /a 1.6 ok data=yy c=1.2 m=1.4 version=1 count=1 ctime=5", "made at"},
		{"another mtime", some + "read get /a 1.6 ok data=yy c=1.2 m=1.4 version=1 count=1 mtime=5", "set at"},
		{"an odd code", some + "read get /a 1.6 loss", "answered with"},
	})
}

func TestWrites(t *testing.T) {
	const some = open + "txn 1.2 create /a data=x xid=1\ntxn 1.3 create /e eph xid=2\n"
	play(t, []history{
		{"create", some + "wrote create /a 1.2 ok data=x xid=1\nwrote create /e 1.3 ok eph xid=2", ""},
		{"set and delete", some + "txn 1.4 set /a 1 data=y xid=3\nwrote set /a 1.4 ok data=y v=0 version=1 xid=3\ntxn 1.5 delete /a xid=4\nwrote delete /a 1.5 ok v=1 xid=4", ""},
		{"refusals", some + "txn 1.4 error exists xid=3\nwrote create /a 1.4 exists xid=3\nwrote create /b/c 1.4 nonode xid=3\n" +
			"wrote set /a 1.4 refused v=4 xid=3\nwrote delete / 1.4 notempty xid=3\nwrote create /e/f 1.4 ephemeral xid=3", ""},
		{"a sequential name", open + "txn 1.2 create /s0000000001 xid=1\nwrote create /s 1.2 ok made=/s0000000001 xid=1", ""},
		{"W1 no such transaction", some + "wrote create /b 1.9 ok xid=3", "W1"},
		{"W1 of another request", some + "wrote create /a 1.2 ok data=x xid=7", "W1"},
		{"W1 of another session", open + "txn 1.2 open session=2\ntxn 1.3 create /a session=2 xid=1\nwrote create /a 1.3 ok xid=1", "W1"},
		{"W2 create without effect", some + "txn 1.4 error exists xid=3\nwrote create /b 1.4 ok xid=3", "W2"},
		{"W2 other data", some + "wrote create /a 1.2 ok data=y xid=1", "W2"},
		{"W2 no ephemeral", some + "wrote create /a 1.2 ok data=x eph xid=1", "W2"},
		{"W2 another name", some + "wrote create /s 1.2 ok made=/a xid=1", "W2"},
		{"W2 a name without a number", some + "wrote create /a 1.2 ok made=/a data=x xid=1", "W2"},
		{"W2 set of another version", some + "txn 1.4 set /a 1 data=y xid=3\nwrote set /a 1.4 ok data=y v=5 version=1 xid=3", "W2"},
		{"W2 set without effect", some + "txn 1.4 error refused xid=3\nwrote set /a 1.4 ok data=y version=1 xid=3", "W2"},
		{"W2 set told as another version", some + "txn 1.4 set /a 1 data=y xid=3\nwrote set /a 1.4 ok data=y version=2 xid=3", "W2"},
		{"W2 delete without effect", some + "txn 1.4 error refused xid=3\nwrote delete /a 1.4 ok xid=3", "W2"},
		{"W2 a check that does not hold", some + "txn 1.4 error refused xid=3\nwrote check /a 1.4 ok v=8 xid=3", "W2"},
		{"W3 exists, and did not", some + "txn 1.4 error exists xid=3\nwrote create /b 1.4 exists xid=3", "W3"},
		{"W3 no parent, and there was", some + "txn 1.4 error nonode xid=3\nwrote create /b 1.4 nonode xid=3", "W3"},
		{"W3 no ephemeral above", some + "txn 1.4 error ephemeral xid=3\nwrote create /a/b 1.4 ephemeral xid=3", "W3"},
		{"W3 nothing to delete, and there was", some + "txn 1.4 error nonode xid=3\nwrote delete /a 1.4 nonode xid=3", "W3"},
		{"W3 a version that matched", some + "txn 1.4 error refused xid=3\nwrote set /a 1.4 refused v=0 xid=3", "W3"},
		{"W3 any version", some + "txn 1.4 error refused xid=3\nwrote set /a 1.4 refused xid=3", "W3"},
		{"W3 not empty, and was", some + "txn 1.4 error notempty xid=3\nwrote delete /a 1.4 notempty xid=3", "W3"},
		{"W4 whole", open + "txn 1.2 create /a ; create /b xid=1\nwrote multi /a,/b 1.2 ok xid=1", ""},
		{"W4 half", open + "txn 1.2 create /a xid=1\nwrote multi /a,/b 1.2 exists xid=1", "W4"},
		{"W4 half, and said in the parts", open + "txn 1.2 create /a xid=1\nwrote multi /a,/b 1.2 ok failed xid=1", "W4"},
		{"W4 failed", open + "txn 1.2 create /a ; error nonode xid=1\nwrote multi /a,/b 1.2 ok failed xid=1", ""},
		{"W4 one path made again", open + "txn 1.2 create /a\ntxn 1.3 delete /a ; create /a xid=1\nwrote multi -/a,/a 1.3 ok xid=1", ""},
		{"W4 one path, and the last part without effect", open + "txn 1.2 create /a\ntxn 1.3 delete /a xid=1\nwrote multi -/a,/a 1.3 ok xid=1", "W2"},
		{"W4 made twice", open + "txn 1.2 create /a xid=1\nwrote multi /a,/a 1.2 ok xid=1", "W2"},
		{"W4 below what is not there any more", open + "txn 1.2 create /a\ntxn 1.3 delete /a xid=1\nwrote multi -/a,/a/b 1.3 ok xid=1", "W2"},
		{"W4 a part without effect", open + "txn 1.2 create /a xid=1\nwrote multi /a,/b 1.2 ok xid=1", "W2"},
	})
}
