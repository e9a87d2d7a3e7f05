"""Debian's python3-websockets against the demo."""

import asyncio
import os

from helpers import Wrong, equal

try:
    import websockets
except ImportError:
    websockets = None

TESTS = []
LIMIT = 30


def missing():
    return None if websockets else \
        "no websockets for this Python (Debian: python3-websockets, run by /usr/bin/python3)"


def test(function):
    def run_it(run):
        asyncio.run(asyncio.wait_for(function(run), LIMIT * run.factor))
    run_it.__name__ = function.__name__
    TESTS.append(run_it)
    return run_it


def connect(run, path, **options):
    options.setdefault("max_size", None)
    return websockets.connect("ws://%s%s" % (run.demo.tcp, path), **options)


@test
async def python_gets_texts_back(run):
    async with connect(run, "/echo") as ws:
        for text in ("", "hello", "grüße €, 𐍈", "x" * 125, "x" * 126, "x" * 65535, "x" * 65536):
            await ws.send(text)
            equal(await ws.recv(), text, "echo")


@test
async def python_gets_a_megabyte_back(run):
    async with connect(run, "/echo") as ws:
        for data in ("ü" * (1 << 19), os.urandom(1 << 20)):
            await ws.send(data)
            equal(await ws.recv() == data, True, "echo of %d" % len(data))


@test
async def python_gets_fragments_back_as_one(run):
    async with connect(run, "/echo") as ws:
        await ws.send(["one ", "two ", "three"])
        equal(await ws.recv(), "one two three", "echo")
        await ws.send([b"\0" * 70000, b"\1" * 70000])
        equal(await ws.recv(), b"\0" * 70000 + b"\1" * 70000, "echo")


@test
async def python_gets_many_messages_back_in_order(run):
    async with connect(run, "/echo", max_queue=None) as ws:
        async def send():
            for number in range(2000):
                await ws.send("message %d" % number)
        sending = asyncio.ensure_future(send())
        for number in range(2000):
            equal(await ws.recv(), "message %d" % number, "echo")
        await sending


@test
async def python_gets_pongs(run):
    async with connect(run, "/echo") as ws:
        for data in (b"", b"ping", b"\xff" * 125):
            await asyncio.wait_for(await ws.ping(data), 10)


@test
async def python_is_kept_alive_by_its_own_pings(run):
    async with connect(run, "/echo", ping_interval=0.05, ping_timeout=5) as ws:
        await asyncio.sleep(0.5)
        await ws.send("still here")
        equal(await ws.recv(), "still here", "echo")


@test
async def python_gets_its_close_code_back(run):
    for code, reason in ((1000, ""), (1001, "leaving"), (3000, "grüße"), (4999, "r" * 123)):
        async with connect(run, "/echo") as ws:
            await ws.close(code, reason)
            equal(ws.close_code, code, "close code")


@test
async def python_is_told_its_subprotocol(run):
    async with connect(run, "/echo", subprotocols=["chat", "echo"]) as ws:
        equal(ws.subprotocol, "echo", "subprotocol")
    async with connect(run, "/echo", subprotocols=["chat"]) as ws:
        equal(ws.subprotocol, None, "subprotocol")
    async with connect(run, "/echo") as ws:
        equal(ws.subprotocol, None, "subprotocol")


@test
async def python_gets_no_websocket_where_there_is_none(run):
    try:
        async with connect(run, "/missing"):
            raise Wrong("/missing became a WebSocket")
    except websockets.InvalidStatusCode as refused:
        equal(refused.status_code, 404, "status")


@test
async def python_clients_chat(run):
    async with connect(run, "/chat") as one, connect(run, "/chat") as two:
        await one.send("hello")
        equal(await two.recv(), "hello", "what the other gets")
        equal(await one.recv(), "hello", "what the sender gets")
        await two.send("grüße")
        equal(await one.recv(), "grüße", "what the other gets")
        equal(await two.recv(), "grüße", "what the sender gets")


@test
async def python_watches_the_counters(run):
    async with connect(run, "/live") as ws:
        for _ in range(3):
            text = await ws.recv()
            if not isinstance(text, str) or not text.startswith("{"):
                raise Wrong("no JSON: %r" % text[:100])


@test
async def a_hundred_python_clients_are_served(run):
    async def one(number):
        async with connect(run, "/echo") as ws:
            for turn in range(10):
                await ws.send("%d %d" % (number, turn))
                equal(await ws.recv(), "%d %d" % (number, turn), "echo")
    await asyncio.gather(*(one(number) for number in range(100)))


@test
async def python_uses_the_unix_socket(run):
    async with websockets.unix_connect(run.demo.unix_path, "ws://localhost/echo") as ws:
        await ws.send("hello")
        equal(await ws.recv(), "hello", "echo")
