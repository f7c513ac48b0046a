"""Fixtures: kazoo clients of the server that ZK_ADDRESS names."""

import os
import socket
import threading
import time
import uuid

import pytest
from kazoo.client import KazooClient

ADDRESS = os.environ.get("ZK_ADDRESS", "127.0.0.1:2181")
WAIT_S = 20
TLS_DIR = os.environ.get("ZK_TLS")  # certificates, if clients are to speak TLS
TLS = {
    "use_ssl": True,
    "ca": TLS_DIR + "/ca.pem",
    "certfile": TLS_DIR + "/client.pem",
    "keyfile": TLS_DIR + "/client.key",
} if TLS_DIR else {}


class Clients:
    """Makes clients and closes them all at the end of a test."""

    def __init__(self):
        self.made = []

    def __call__(self, address=ADDRESS, **options):
        client = KazooClient(hosts=address, timeout=options.pop("timeout", 8.0), **{**TLS, **options})
        client.start(timeout=WAIT_S)
        self.made.append(client)
        return client

    def close(self):
        for client in self.made:
            client.stop()
            client.close()


@pytest.fixture
def connect():
    clients = Clients()
    yield clients
    clients.close()


@pytest.fixture
def zk(connect):
    return connect()


@pytest.fixture
def path(zk):
    """A znode of its own for the test."""
    name = "/kazoo/" + uuid.uuid4().hex
    zk.ensure_path(name)
    return name


def wait_for(condition, what="condition"):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("did not happen: " + what)


class CutProxy:
    """A TCP proxy to the server whose connections can be cut, and refused."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open = True
        self.sockets = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        self.open = False
        self.blink()

    def heal(self):
        self.open = True

    def blink(self):
        for s in list(self.sockets):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already

    def close(self):
        self.cut()
        self.listener.close()

    def _accept(self):
        host, port = ADDRESS.rsplit(":", 1)
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if not self.open:
                client.close()
                continue
            server = socket.create_connection((host, int(port)))
            self.sockets |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source, target):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
        except OSError:
            pass  # cut
        for s in (source, target):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already
        self.sockets -= {source, target}


@pytest.fixture
def proxy():
    p = CutProxy()
    yield p
    p.close()
