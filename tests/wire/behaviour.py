"""The wire tests that need code: many clients, slow clients, signals, descriptors, start and stop.

A test is an async function marked with @test in one of the behave_*.py files. It gets a Bench,
starts its own demo with bench.demo(), and raises Wrong when something is not as it should be; a
demo that does not stop with code 0, or in which a sanitizer found something, fails the test too.
Each test runs in a process of its own.
"""

import asyncio
import contextlib
import importlib
import json
import os
import resource
import socket
import struct
import traceback

import casefile
import stream
from demo import Demo, slowness
from stream import Connection, Wrong

TESTS = []          # (function, labels of configurations or None)
ROOMS = sorted(name[:-3] for name in os.listdir(os.path.dirname(os.path.abspath(__file__)))
               if name.startswith("behave_") and name.endswith(".py"))
PING = b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"


def test(function=None, only=None):
    """Marks a test; only: the labels of the configurations it is for."""
    def mark(f):
        TESTS.append((f, only))
        return f
    return mark(function) if function else mark


class Bench:
    """What a test needs to know of its run."""

    def __init__(self, build, config):
        self.build = build
        self.config = config
        self.factor = slowness(build)

    @contextlib.contextmanager
    def demo(self, *options, **more):
        """A running demo that has to stop well at the end of the block, if it still runs."""
        config = self.config.with_more(options)
        with Demo(self.build, config.options, **more) as demo:
            demo.config, demo.fresh = config, demo.descriptors()
            yield demo
            if demo.code is None:
                want(demo.stop())

    def until(self, seconds=10):
        return asyncio.get_running_loop().time() + seconds * self.factor


def want(wrong):
    """Raises what is not None."""
    if wrong is not None:
        raise Wrong(wrong)


def equal(have, wanted, what):
    if have != wanted:
        raise Wrong("%s: %s wanted, came %s" % (what, wanted, have))


@contextlib.asynccontextmanager
async def connections(address, count):
    """count open connections."""
    conns = []
    try:
        for _ in range(count):
            conns.append(Connection(address))
        yield conns
    finally:
        for conn in conns:
            conn.close()


async def ping(conn, until):
    """One GET /ping on an open connection."""
    await conn.send(PING, until)
    answer = await stream.read_answer(conn, until)
    if answer.status != 200 or answer.body != b"pong":
        raise Wrong("/ping: %d %s" % (answer.status, stream.shown(answer.body)))


async def fresh_ping(address, until):
    async with connections(address, 1) as (conn,):
        await ping(conn, until)


async def websocket(conn, until, path="/echo", extra=b""):
    """The upgrade; answers the 101."""
    await conn.send(casefile.upgrade(path, extra), until)
    answer = await stream.read_answer(conn, until)
    equal(answer.status, 101, "upgrade")
    equal(answer.one("Sec-WebSocket-Accept"), casefile.ACCEPT, "Sec-WebSocket-Accept")
    extensions = answer.one("Sec-WebSocket-Extensions")
    conn.unpack = stream.unpacker(extensions) if extensions else None
    return answer


async def message(conn, until, op, data):
    """The next message has to be this one."""
    have = await stream.read_message(conn, until)
    if have != (op, data):
        raise Wrong("opcode %d %s wanted, came %d %s"
                    % (op, stream.shown(data), have[0], stream.shown(have[1])))


async def echo(conn, until, data, op=1):
    await conn.send(casefile.frame(0x80 | op, data, b"\x01\x02\x03\x04"), until)
    await message(conn, until, op, data)


async def ended(conn, until):
    """Waits for the end of the stream, whatever comes before it."""
    while not conn.ended:
        conn.data.clear()
        await conn.arrival(until)


def reset(conn):
    """Ends a TCP connection with RST."""
    conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.close()


def memory(demo):
    """Anonymous memory in bytes."""
    with open("/proc/%d/status" % demo.pid) as text:
        for line in text:
            if line.startswith("RssAnon"):
                return int(line.split()[1]) * 1024
    raise Wrong("no RssAnon")


async def descriptors_are_those_of(demo, connections, until):
    """Waits, with the loop running, until no more than theirs are open."""
    loop = asyncio.get_running_loop()
    wanted = demo.config.descriptors_with(connections, demo.fresh)
    while demo.descriptors() > wanted:
        if loop.time() > until:
            raise Wrong("%d descriptors wanted, %d are open" % (wanted, demo.descriptors()))
        await asyncio.sleep(0.02)


async def threads_are_those_of(demo, connections, until):
    """Exactly as many as announced; a thread for each connection comes and goes with it."""
    loop = asyncio.get_running_loop()
    wanted = demo.threads + (connections if demo.config.threaded else 0)
    while demo.config.threaded and demo.thread_count() != wanted and loop.time() < until:
        await asyncio.sleep(0.02)
    equal(demo.thread_count(), wanted, "threads with %d connections" % connections)


async def stats(demo, until):
    """What /stats says, over a connection of its own."""
    async with connections(demo.unix, 1) as (conn,):
        await conn.send(b"GET /stats HTTP/1.1\r\nHost: a\r\n\r\n", until)
        answer = await stream.read_answer(conn, until)
        if answer.status != 200:
            raise Wrong("/stats: %d" % answer.status)
        return json.loads(answer.body)


async def calm(demo, when, until):
    """Waits for a second without work. A server that spins never has one."""
    loop = asyncio.get_running_loop()
    while True:
        before, start = demo.cpu_seconds(), loop.time()
        await asyncio.sleep(1)
        share = (demo.cpu_seconds() - before) / (loop.time() - start)
        if share <= 0.02:
            return
        if loop.time() > until:
            raise Wrong("%.0f %% CPU %s" % (share * 100, when))


async def stops(demo, limit, code=0):
    """Waits, with the loop running, until the demo has ended."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    while demo.process.poll() is None:
        if loop.time() - start > limit:
            raise Wrong("it did not end within %.1f s" % limit)
        await asyncio.sleep(0.01)
    demo.code = demo.process.returncode
    if demo.faults():
        raise Wrong("a sanitizer speaks: " + "; ".join(demo.faults()[:5]))
    equal(demo.code, code, "exit code")
    return loop.time() - start


def fails(bench, wanted_code, listen=None, options=(), words=(), environment=None):
    """Starts a demo that has to refuse: exit code and the words of its message."""
    demo = Demo(bench.build, list(options), listen=listen, environment=environment)
    try:
        demo.spawn()
        code = demo.process.wait(10 * bench.factor)
        equal(code, wanted_code, "exit code with %s %s %s" % (listen, options, environment))
        for word in words:
            if word not in demo.errors():
                raise Wrong("%s wanted in the message: %s" % (word, demo.errors()[:300]))
        if demo.faults():
            raise Wrong("a sanitizer speaks: " + demo.faults()[0])
    finally:
        demo.__exit__()


def tasks(config, args):
    """All tests of this configuration: [(label, function)]."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if not TESTS:
        for room in ROOMS:
            importlib.import_module(room)
    found = []
    for function, only in TESTS:
        name = "%s (%s.py, %s)" % (function.__name__, function.__module__, config.label)
        if args.only in name and (only is None or config.label in only):
            found.append((config.label, lambda function=function, name=name: [
                (name, outcome(function, Bench(args.build, config)))]))
    return found


def outcome(function, bench):
    """None, or what was wrong."""
    try:
        asyncio.run(function(bench))
    except Exception as wrong:      # whatever it is, the report has to come
        where = traceback.extract_tb(wrong.__traceback__)
        lines = [str(f.lineno) for f in where if f.name == function.__name__]
        return "%s%s" % (wrong or type(wrong).__name__, " (line %s)" % lines[-1] if lines else "")
    return None
