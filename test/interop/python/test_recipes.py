"""kazoo's recipes."""

import threading

from kazoo.recipe.barrier import DoubleBarrier
from kazoo.recipe.cache import TreeCache
from kazoo.recipe.party import ShallowParty
from kazoo.recipe.watchers import PatientChildrenWatch

from conftest import WAIT_S, wait_for


def test_election_passes_on(connect, path):
    leaders, elections = [], []
    release = {name: threading.Event() for name in "abc"}

    def lead(name):
        leaders.append(name)
        release[name].wait(WAIT_S)

    threads = []
    for name in "abc":
        election = connect().Election(path, name)
        elections.append(election)
        thread = threading.Thread(target=election.run, args=(lead, name), daemon=True)
        thread.start()
        threads.append(thread)
        wait_for(lambda: name in elections[0].contenders(), name + " contends")
    assert elections[0].contenders() == ["a", "b", "c"]
    for n, name in enumerate("abc", 1):
        wait_for(lambda: len(leaders) == n, "leader %d" % n)
        release[name].set()
    for thread in threads:
        thread.join(WAIT_S)
    assert leaders == ["a", "b", "c"]


def test_election_is_won_after_the_leader_session_ends(connect, path):
    first, won = connect(), threading.Event()
    leading = threading.Event()

    def hold():
        leading.set()
        won.wait(WAIT_S)

    threading.Thread(target=first.Election(path, "1").run, args=(hold,), daemon=True).start()
    assert leading.wait(WAIT_S)
    threading.Thread(target=connect().Election(path, "2").run, args=(won.set,), daemon=True).start()
    first.stop()
    assert won.wait(WAIT_S)


def test_lock_excludes(connect, path):
    inside, most, guard = [0], [0], threading.Lock()

    def work(client):
        lock = client.Lock(path, "w")
        for _ in range(5):
            with lock:
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with guard:
                    inside[0] -= 1

    threads = [threading.Thread(target=work, args=(connect(),)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(WAIT_S)
    assert most[0] == 1


def test_lock_does_not_block_when_told(connect, path):
    mine, theirs = connect().Lock(path, "a"), connect().Lock(path, "b")
    assert mine.acquire()
    assert not theirs.acquire(blocking=False)
    assert theirs.contenders() == ["a"]
    mine.release()
    assert theirs.acquire(timeout=WAIT_S)


def test_read_and_write_locks(connect, path):
    a, b = connect(), connect()
    r1, r2, w = a.ReadLock(path, "r1"), b.ReadLock(path, "r2"), b.WriteLock(path, "w")
    assert r1.acquire() and r2.acquire(timeout=WAIT_S)
    assert not w.acquire(blocking=False)
    r1.release()
    r2.release()
    assert w.acquire(timeout=WAIT_S)


def test_semaphore_counts_leases(connect, path):
    clients = [connect() for _ in range(3)]
    semaphores = [c.Semaphore(path, "s%d" % i, max_leases=2) for i, c in enumerate(clients)]
    assert semaphores[0].acquire() and semaphores[1].acquire()
    assert not semaphores[2].acquire(blocking=False)
    assert sorted(semaphores[2].lease_holders()) == ["s0", "s1"]
    semaphores[0].release()
    assert semaphores[2].acquire(timeout=WAIT_S)


def test_party_and_shallow_party(connect, path):
    a, b = connect(), connect()
    for kind in (lambda c, n: c.Party(path + "/p", n), lambda c, n: ShallowParty(c, path + "/s", n)):
        one, two = kind(a, "one"), kind(b, "two")
        one.join()
        two.join()
        wait_for(lambda: set(one) == {"one", "two"}, "both in the party")
        assert len(two) == 2
        two.leave()
        wait_for(lambda: set(one) == {"one"}, "one left")


def test_barrier(connect, path):
    mine, theirs = connect().Barrier(path + "/b"), connect().Barrier(path + "/b")
    mine.create()
    assert not theirs.wait(0.2)
    threading.Timer(0.1, mine.remove).start()
    assert theirs.wait(WAIT_S)


def test_double_barrier(connect, path):
    passed, guard = [], threading.Lock()

    def member(client, name):
        barrier = DoubleBarrier(client, path + "/d", 3, name)
        barrier.enter()
        with guard:
            passed.append(name)
        barrier.leave()

    threads = [threading.Thread(target=member, args=(connect(), "m%d" % i)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(WAIT_S)
    assert sorted(passed) == ["m0", "m1", "m2"]


def test_counter_under_contention(connect, path):
    counters = [connect().Counter(path + "/c", default=7) for _ in range(3)]

    def add(counter):
        for _ in range(10):
            counter += 2

    threads = [threading.Thread(target=add, args=(c,)) for c in counters]
    for t in threads:
        t.start()
    for t in threads:
        t.join(WAIT_S)
    assert counters[0].value == 67


def test_data_watch_sees_the_life_of_a_node(zk, connect, path):
    other, seen = connect(), []

    @zk.DataWatch(path + "/d")
    def watch(data, stat, event):
        seen.append(data)

    other.create(path + "/d", b"1")
    wait_for(lambda: b"1" in seen, "created")
    other.set(path + "/d", b"2")
    wait_for(lambda: b"2" in seen, "changed")
    other.delete(path + "/d")
    wait_for(lambda: seen[-1] is None, "deleted")
    assert seen == [None, b"1", b"2", None]


def test_children_watch_survives_a_cut(zk, connect, path, proxy):
    client, seen = connect(proxy.address), []
    client.ChildrenWatch(path, lambda children: seen.append(sorted(children)))
    zk.create(path + "/a")
    wait_for(lambda: seen[-1] == ["a"], "first child")
    proxy.cut()
    zk.create(path + "/b")
    proxy.heal()
    wait_for(lambda: seen[-1] == ["a", "b"], "child made during the cut")


def test_data_watch_survives_a_cut(zk, connect, path, proxy):
    client, seen = connect(proxy.address), []
    client.DataWatch(path, lambda data, stat: seen.append(data))
    proxy.cut()
    zk.set(path, b"during")
    proxy.heal()
    wait_for(lambda: seen[-1] == b"during", "data set during the cut")


def test_patient_children_watch(zk, path):
    zk.create(path + "/only")
    result = PatientChildrenWatch(zk, path, 0.2).start()
    children, changed = result.get(timeout=WAIT_S)
    assert children == ["only"]
    zk.create(path + "/second")
    changed.get(timeout=WAIT_S)


def test_queue_keeps_order_and_priority(zk, path):
    queue = zk.Queue(path + "/q")
    queue.put(b"low", 200)
    queue.put(b"a", 100)
    queue.put(b"b", 100)
    queue.put(b"high", 1)
    assert len(queue) == 4
    assert [queue.get() for _ in range(5)] == [b"high", b"a", b"b", b"low", None]


def test_locking_queue_hands_items_to_one_consumer(connect, path):
    a, b = connect(), connect()
    mine, theirs = a.LockingQueue(path + "/lq"), b.LockingQueue(path + "/lq")
    mine.put(b"item")
    assert mine.get(timeout=WAIT_S) == b"item"
    assert theirs.get(timeout=0.2) is None
    assert mine.consume()
    assert len(theirs) == 0


def test_tree_cache_follows(zk, connect, path):
    other = connect()
    cache = TreeCache(zk, path)
    cache.start()
    other.create(path + "/a/b", b"x", makepath=True)
    wait_for(lambda: cache.get_data(path + "/a/b") is not None, "grandchild in cache")
    assert cache.get_data(path + "/a/b").data == b"x"
    other.delete(path + "/a", recursive=True)
    wait_for(lambda: cache.get_data(path + "/a") is None, "gone from cache")
    cache.close()


def test_partitioner_divides(connect, path):
    sets = [connect().SetPartitioner(path, set=("1", "2", "3"), identifier=i, time_boundary=0.2) for i in "ab"]
    done = threading.Event()

    def follow(p):
        while not done.is_set():
            if p.release:
                p.release_set()
            elif p.allocating:
                p.wait_for_acquire(1)
            else:
                done.wait(0.01)

    threads = [threading.Thread(target=follow, args=(p,)) for p in sets]
    for t in threads:
        t.start()
    try:
        wait_for(
            lambda: all(p.acquired for p in sets) and sorted(x for p in sets for x in list(p)) == ["1", "2", "3"],
            "all parts given out once",
        )
    finally:
        done.set()
        for t in threads:
            t.join(WAIT_S)
    for p in sets:
        p.finish()
