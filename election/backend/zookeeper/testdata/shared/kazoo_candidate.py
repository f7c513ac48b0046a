"""One candidate with kazoo's Election: prints its id when it leads."""
import signal
import sys
import threading

from kazoo.client import KazooClient

addr, path, ident = sys.argv[1:]
client = KazooClient(hosts=addr, timeout=4.0)
client.start()
election = client.Election(path, ident)
# Candidates of Curator and Conclave are contenders too.
election.lock = client.Lock(path, ident, extra_lock_patterns=["-latch-"])
over = threading.Event()


def lead():
    print(ident, flush=True)
    over.wait()


def end(*_):
    over.set()
    election.cancel()


signal.signal(signal.SIGTERM, end)
threading.Thread(target=election.run, args=(lead,), daemon=True).start()
over.wait()
client.stop()
