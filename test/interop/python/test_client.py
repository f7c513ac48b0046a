"""kazoo's plain calls, transactions, ACLs and reconnection."""

import pytest
from kazoo.client import KazooState
from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.security import make_acl, make_digest_acl

from conftest import wait_for


def test_create_read_update_delete(zk, path):
    assert zk.create(path + "/a", b"one") == path + "/a"
    data, stat = zk.get(path + "/a")
    assert (data, stat.version) == (b"one", 0)
    assert zk.set(path + "/a", b"two").version == 1
    with pytest.raises(BadVersionError):
        zk.set(path + "/a", b"three", version=0)
    with pytest.raises(NodeExistsError):
        zk.create(path + "/a")
    with pytest.raises(NotEmptyError):
        zk.delete(path)
    zk.delete(path + "/a", version=1)
    assert zk.exists(path + "/a") is None
    with pytest.raises(NoNodeError):
        zk.get(path + "/a")


def test_create_with_stat_and_modes(zk, path):
    made, stat = zk.create(path + "/s", b"x", include_data=True)
    assert made == path + "/s" and stat == zk.get(path + "/s")[1]
    assert zk.create(path + "/n-", sequence=True) == path + "/n-0000000001"
    ephemeral = zk.create(path + "/e-", ephemeral=True, sequence=True)
    assert zk.exists(ephemeral).ephemeralOwner == zk.client_id[0]
    with pytest.raises(NoChildrenForEphemeralsError):
        zk.create(ephemeral + "/kid")
    assert sorted(zk.get_children(path)) == ["e-0000000002", "n-0000000001", "s"]
    assert zk.get_children(path, include_data=True)[1].numChildren == 3


def test_makepath_ensure_path_and_recursive_delete(zk, path):
    zk.create(path + "/a/b/c", b"x", makepath=True)
    zk.ensure_path(path + "/a/d/e")
    zk.delete(path + "/a", recursive=True)
    assert zk.get_children(path) == []


def test_async_calls_come_in_order(zk, path):
    calls = [zk.set_async(path, b"%d" % i, version=i) for i in range(500)]
    assert [c.get(timeout=20).version for c in calls] == list(range(1, 501))


def test_large_data(zk, path):
    data = bytes(range(256)) * 4000
    zk.set(path, data)
    assert zk.get(path)[0] == data


def test_transaction_commits_all(zk, path):
    t = zk.transaction()
    t.check(path, 0)
    t.create(path + "/a", b"1")
    t.create(path + "/s-", sequence=True, ephemeral=True)
    t.set_data(path + "/a", b"2")
    t.delete(path + "/a")
    results = t.commit()
    assert results[1:3] == [path + "/a", path + "/s-0000000001"]
    assert results[3].version == 1 and results[4] is True
    assert zk.get_children(path) == ["s-0000000001"]


def test_transaction_rolls_back(zk, path):
    t = zk.transaction()
    t.create(path + "/a")
    t.delete(path + "/none")
    t.create(path + "/b")
    results = t.commit()
    assert [type(r) for r in results] == [RolledBackError, NoNodeError, RuntimeInconsistency]
    assert zk.get_children(path) == []


def test_sasl(zk, path, connect):
    app = connect(sasl_options={"mechanism": "DIGEST-MD5", "username": "app", "password": "secret of app"})
    app.create(path + "/secret", b"x", acl=[make_acl("sasl", "app", all=True)])
    assert app.get(path + "/secret")[0] == b"x"
    with pytest.raises(NoAuthError):
        zk.get(path + "/secret")


def test_acls(zk, path, connect):
    owner = connect(auth_data=[("digest", "dave:pw")])
    acl = make_digest_acl("dave", "pw", all=True)
    owner.create(path + "/mine", b"x", acl=[acl])
    assert owner.get_acls(path + "/mine")[0] == [acl]
    with pytest.raises(NoAuthError):
        zk.get(path + "/mine")
    with pytest.raises(InvalidACLError):
        zk.create(path + "/bad", acl=[acl._replace(id=acl.id._replace(scheme="nosuch"))])
    zk.add_auth("digest", "dave:pw")
    assert zk.get(path + "/mine")[0] == b"x"
    assert zk.set_acls(path + "/mine", [acl]).aversion == 1


def test_sync(zk, path):
    assert zk.sync(path) == path


def test_server_commands(connect):
    zk = connect(use_ssl=False)  # kazoo 2.10 cannot send four-letter words over TLS
    assert zk.command(b"ruok") == "imok"
    assert zk.server_version()[0] >= 3


def test_watches_of_get_exists_and_children(zk, path, connect):
    other, events = connect(), []
    zk.get(path, watch=events.append)
    zk.exists(path + "/new", watch=events.append)
    other.set(path, b"x")
    zk.get_children(path, watch=events.append)
    other.create(path + "/new")
    wait_for(lambda: len(events) == 3, "three events")
    assert {(e.type, e.path) for e in events} == {
        (EventType.CHANGED, path),
        (EventType.CREATED, path + "/new"),
        (EventType.CHILD, path),
    }


def test_ephemerals_survive_a_cut(zk, path, connect, proxy):
    client, states = connect(proxy.address), []
    client.add_listener(states.append)
    session = client.client_id
    client.create(path + "/e", ephemeral=True)
    proxy.cut()
    wait_for(lambda: KazooState.SUSPENDED in states, "suspended")
    proxy.heal()
    wait_for(lambda: states[-1] == KazooState.CONNECTED, "connected again")
    assert client.client_id == session and KazooState.LOST not in states
    assert zk.exists(path + "/e").ephemeralOwner == session[0]


def test_session_is_taken_over_by_id_and_password(zk, path, connect, proxy):
    first = connect(proxy.address)
    first.create(path + "/e", ephemeral=True)
    session = first.client_id
    proxy.cut()
    second = connect(client_id=session)
    assert second.client_id == session
    assert zk.exists(path + "/e") is not None
    second.stop()
    assert zk.exists(path + "/e") is None


def test_expired_session_is_lost_and_a_new_one_made(zk, path, connect, proxy):
    client, states = connect(proxy.address, timeout=1.0), []
    client.add_listener(states.append)
    session = client.client_id
    client.create(path + "/e", ephemeral=True)
    proxy.cut()
    wait_for(lambda: zk.exists(path + "/e") is None, "ephemeral gone")
    proxy.heal()
    wait_for(lambda: KazooState.LOST in states and states[-1] == KazooState.CONNECTED, "lost, then connected")
    assert client.client_id[0] != session[0]


def test_chroot(zk, path, connect):
    rooted = connect()
    rooted.chroot = path
    assert rooted.create("/in") == "/in"
    assert zk.exists(path + "/in") is not None
