"""The wire tests that need code: many clients, slow clients, signals, descriptors, start and stop.

A test is an async function marked with @test in one of the behave_*.py files. It gets a Bench,
starts its own demo with bench.demo(), and raises Wrong when something is not as it should be; a
demo that does not stop with code 0, or in which a sanitizer found something, fails the test too.
"""

import asyncio
import contextlib
import importlib
import resource
import traceback

import casefile
import stream
from demo import Demo, slowness
from stream import Connection, Wrong

TESTS = []          # (function, labels of configurations or None)
ROOMS = ("behave_load", "behave_peers", "behave_life")
PING = b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"


def test(function=None, only=None):
    """Marks a test; only: the labels of the configurations it is for."""
    def mark(f):
        TESTS.append((f, only))
        return f
    return mark(function) if function else mark


class Bench:
    """What a test needs to know of its run."""

    def __init__(self, build, options):
        self.build = build
        self.options = options
        self.factor = slowness(build)

    @contextlib.contextmanager
    def demo(self, *options, **more):
        """A running demo that has to stop well at the end of the block, if it still runs."""
        with Demo(self.build, self.options + list(options), **more) as demo:
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


async def descriptors_fall_to(demo, count, until):
    """Waits, with the loop running, until the demo has no more than count open."""
    loop = asyncio.get_running_loop()
    while demo.descriptors() > count:
        if loop.time() > until:
            raise Wrong("%d descriptors wanted, %d are open" % (count, demo.descriptors()))
        await asyncio.sleep(0.02)


async def cpu_share(demo, seconds=1.0):
    """The processor time it takes in the next seconds, 1.0 for one core."""
    loop = asyncio.get_running_loop()
    before, start = demo.cpu_seconds(), loop.time()
    await asyncio.sleep(seconds)
    return (demo.cpu_seconds() - before) / (loop.time() - start)


def run(out, label, args, options):
    """All tests of this configuration."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if not TESTS:
        for room in ROOMS:
            importlib.import_module(room)
    for function, only in TESTS:
        name = "%s (%s.py, %s)" % (function.__name__, function.__module__, label)
        if args.only in name and (only is None or label in only):
            out.result(name, outcome(function, Bench(args.build, options)))


def outcome(function, bench):
    try:
        asyncio.run(function(bench))
    except Exception as wrong:      # whatever it is, the next test still runs
        where = traceback.extract_tb(wrong.__traceback__)
        lines = [str(f.lineno) for f in where if f.name == function.__name__]
        return "%s%s" % (wrong or type(wrong).__name__, " (line %s)" % lines[-1] if lines else "")
    return None
