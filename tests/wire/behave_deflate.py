"""Compressed messages, with Python's zlib at the client's end (see behaviour.py).

The server inflates what any deflate state of a client makes; what it sends, stream.unpacker() inflates with
exactly the window that was agreed on.
"""

import asyncio
import json
import random
import zlib

import casefile
import stream
from behaviour import (Wrong, connections, equal, memory, message, stats, test, websocket)
from demo import build_name

OFFER = b"Sec-WebSocket-Extensions: permessage-deflate%s\r\n"
ALONE = ["--deflate"]
TAKEOVER = ["--deflate=takeover"]
NO_QUARANTINE = {"ASAN_OPTIONS": "quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}
KEY = b"\x37\xfa\x21\x3d"


class Packer:
    """A client's compressor, with a context that it keeps or does not."""

    def __init__(self, keeps=False, level=6, bits=15):
        self.keeps, self.level, self.bits = keeps, level, bits
        self.state = None

    def pack(self, data):
        if not self.state or not self.keeps:
            self.state = zlib.compressobj(self.level, zlib.DEFLATED, -self.bits)
        return (self.state.compress(data) + self.state.flush(zlib.Z_SYNC_FLUSH))[:-4]

    def frame(self, data, op=1):
        return casefile.frame(0xc0 | op, self.pack(data), KEY)


def words(dice, size):
    """Text that compresses, of about that many bytes."""
    parts = ["{\"id\":%d,\"side\":\"%s\",\"price\":%.2f}"
             % (dice.randrange(10**6), dice.choice(("buy", "sell")), dice.random() * 100)
             for _ in range(size // 38 + 1)]
    return ",".join(parts)[:size].encode()


async def agreed(conn, until, parameters=b"", path="/echo"):
    """The upgrade with an offer that has to be accepted; answers the parameters."""
    answer = await websocket(conn, until, path, OFFER % parameters)
    if not conn.unpack:
        raise Wrong("the offer was declined: %s" % parameters)
    return answer.one("Sec-WebSocket-Extensions")


async def refused(conn, until, wanted):
    """The next is a Close with that code."""
    op, data = await stream.read_message(conn, until)
    equal((op, int.from_bytes(data[:2], "big")), (8, wanted), "the end")


@test
async def compressed_messages_of_every_size_come_back(bench):
    """Compressible or not, far above and below what the server reads at once."""
    dice = random.Random(7692)
    until = bench.until(60)
    with bench.demo(*ALONE) as demo:
        for address in (demo.tcp, demo.unix):
            async with connections(address, 1) as (conn,):
                await agreed(conn, until)
                for size in (1, 2, 255, 256, 1025, 1448, 4097, 16383, 33000, 65536, 200000, 1 << 20):
                    for data in (dice.randbytes(size), words(dice, size)):
                        await conn.send(Packer(level=1).frame(data, 2), until)
                        await message(conn, until, 2, data)
                        equal(conn.packed, size > 255 and data[:1] == b"{",
                              "a message of %d is compressed" % size)


@test
async def messages_in_one_write_come_back_each(bench):
    """In one piece and in many, with a control frame among them."""
    dice = random.Random(1)
    until = bench.until(60)
    texts = [words(dice, size) for size in (8433, 24626, 300)]
    for options, keeps in ((ALONE, False), (TAKEOVER, True)):
        with bench.demo(*options) as demo:
            async with connections(demo.tcp, 1) as (conn,):
                await agreed(conn, until)
                packer = Packer(keeps)
                burst = b"".join(packer.frame(text) for text in texts)
                await conn.send(burst, until)
                for text in texts:
                    await message(conn, until, 1, text)
                burst = packer.frame(texts[0]) + casefile.frame(0x89, b"p") + packer.frame(texts[1])
                for i in range(0, len(burst), 777):
                    await conn.send(burst[i:i + 777], until)
                    await asyncio.sleep(0.001)
                have = [await stream.read_message(conn, until) for _ in range(3)]
                equal(sorted(have), sorted([(1, texts[0]), (10, b"p"), (1, texts[1])]), "what came")


@test
async def contexts_are_kept_over_a_thousand_messages(bench):
    """Both directions, several connections beside each other, messages of all sizes, some of them plain."""
    until = bench.until(120)

    async def talk(address, seed):
        dice = random.Random(seed)
        async with connections(address, 1) as (conn,):
            await agreed(conn, until, b"; client_max_window_bits")
            packer = Packer(keeps=True)
            plain = packed = 0
            for _ in range(25):
                texts = [words(dice, dice.choice((10, 300, 3000, 40000))) for _ in range(10)]
                await conn.send(b"".join(
                    packer.frame(text) if dice.random() < 0.8 else casefile.frame(0x81, text, KEY)
                    for text in texts), until)
                for text in texts:
                    before = len(conn.data)
                    await message(conn, until, 1, text)
                    plain, packed = plain + len(text), packed + max(before - len(conn.data), 0)

    with bench.demo(*TAKEOVER) as demo:
        await asyncio.gather(*(talk(demo.tcp if i % 2 else demo.unix, i) for i in range(4)))


@test
async def every_window_that_is_agreed_on_is_kept_to(bench):
    """What repeats itself after 300, 3,000 and 30,000 bytes is what a wider window would refer to."""
    dice = random.Random(2)
    until = bench.until(60)
    for options in (ALONE, TAKEOVER):
        with bench.demo(*options, "--deflate-level", "9") as demo:
            for bits in range(9, 16):
                async with connections(demo.tcp, 1) as (conn,):
                    answer = await agreed(conn, until, b"; server_max_window_bits=%d"
                                          b"; client_max_window_bits=%d" % (bits, bits))
                    if "server_max_window_bits=%d" % bits not in answer:
                        raise Wrong("the answer to %d bits: %s" % (bits, answer))
                    packer = Packer("client_no" not in answer, bits=bits)
                    for distance in (300, 3000, 30000):
                        data = dice.randbytes(distance // 2).hex().encode() * 3
                        for _ in range(2):
                            await conn.send(packer.frame(data), until)
                            await message(conn, until, 1, data)
                            equal(conn.packed, True, "compressed")


def bomb(size, keeps=False):
    """A message of size zeros, as a client's frame."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = bytes(1 << 20)
    data = b"".join(packer.compress(piece) for _ in range(size >> 20))
    return casefile.frame(0xc2, (data + packer.flush(zlib.Z_SYNC_FLUSH))[:-4], KEY)


@test(only=("auto", "pool", "threads"))
async def a_bomb_costs_at_most_the_limit(bench):
    """1 MiB that would inflate to 1 GiB, from 20 connections at once; the limit is 1 MiB."""
    until = bench.until(120)
    frame = bomb(1 << 30)
    if not 1 << 19 < len(frame) < 1 << 21:
        raise Wrong("a bomb of %d bytes" % len(frame))
    for options in (ALONE, TAKEOVER):
        with bench.demo(*options, "--ws-max-message", "1048576") as demo:
            before = memory(demo)
            async with connections(demo.unix, 20) as conns:
                for conn in conns:
                    await agreed(conn, until)

                async def throw(conn):
                    await asyncio.gather(conn.send(frame, until), refused(conn, until, 1009))

                most = asyncio.ensure_future(highest(demo))
                await asyncio.gather(*(throw(conn) for conn in conns))
                most.cancel()
                have = await most - before
            # each has at most its limit, what was read of it, and its states
            if have > len(conns) * (3 << 20) * bench.factor + (16 << 20):
                raise Wrong("20 bombs cost %d KiB" % (have >> 10))
            equal((await stats(demo, until))["ws_failed"], 20, "failed WebSockets")


async def highest(demo):
    """The highest memory until it is cancelled."""
    most = memory(demo)
    try:
        while True:
            most = max(most, memory(demo))
            await asyncio.sleep(0.002)
    except asyncio.CancelledError:
        return most


@test
async def the_limit_is_exact_for_large_messages(bench):
    limit = 70000
    dice = random.Random(3)
    until = bench.until(60)
    with bench.demo(*ALONE, "--ws-max-message", str(limit)) as demo:
        for data in (bytes(limit), words(dice, limit), dice.randbytes(limit)):
            for more in (0, 1, 2, 100000):
                async with connections(demo.tcp, 1) as (conn,):
                    await agreed(conn, until)
                    await conn.send(Packer().frame(data + bytes(more), 2), until)
                    if more:
                        await refused(conn, until, 1009)
                    else:
                        await message(conn, until, 2, data)


@test
async def a_message_for_many_reaches_each_in_its_form(bench):
    """The chat builds one frame for all: plain clients, narrow windows, contexts of their own."""
    dice = random.Random(4)
    until = bench.until(60)
    offers = (None, b"", b"; server_max_window_bits=9", b"; server_no_context_takeover")
    for options in (ALONE, TAKEOVER):
        with bench.demo(*options) as demo:
            async with connections(demo.tcp, 8) as conns:
                for i, conn in enumerate(conns):
                    if offers[i % 4] is None:
                        await websocket(conn, until, "/chat")
                    else:
                        await agreed(conn, until, offers[i % 4], "/chat")
                packer = Packer("takeover" in options[0])
                for size in (10, 400, 400, 5000, 60000, 400):
                    text = words(dice, size)
                    await conns[1].send(packer.frame(text), until)
                    for i, conn in enumerate(conns):
                        await message(conn, until, 1, text)
                        if i % 4 in (1, 3) or (i % 4 == 2 and size < 500):
                            equal(conn.packed, size > 255, "%d bytes are compressed" % size)


@test(only=("auto", "inline", "pool", "affine"))
async def an_idle_connection_pays_nothing_for_compression(bench):
    """600 connections that have each echoed a compressed message, against 600 that echoed it plain."""
    if build_name(bench.build).endswith("tsan"):
        return  # its shadow grows with what was touched, not with what is held
    until = bench.until(120)
    text = words(random.Random(5), 2000)

    async def weigh(offer):
        with bench.demo(*ALONE, environment=NO_QUARANTINE) as demo:
            async with connections(demo.unix, 10) as few:
                await asyncio.gather(*(once(conn, offer) for conn in few))
                before = memory(demo)
                async with connections(demo.unix, 600) as conns:
                    for i in range(0, 600, 50):
                        await asyncio.gather(*(once(conn, offer) for conn in conns[i:i + 50]))
                    return memory(demo) - before

    async def once(conn, offer):
        await (agreed if offer else websocket)(conn, until)
        frame = Packer().frame(text) if offer else casefile.frame(0x81, text, KEY)
        await conn.send(frame, until)
        await message(conn, until, 1, text)

    plain, packed = await weigh(False), await weigh(True)
    # some states more may be at rest; 600 of the smallest kind would be 4 MiB
    if packed - plain > 2 << 20:
        raise Wrong("%d KiB with compression, %d KiB without" % (packed >> 10, plain >> 10))


@test
async def messages_of_a_live_page_are_compressed(bench):
    """They are posted by a thread that belongs to no loop."""
    until = bench.until(30)
    for options in (ALONE, TAKEOVER):
        with bench.demo(*options, "--deflate-min", "32") as demo:
            async with connections(demo.tcp, 2) as conns:
                await agreed(conns[0], until, path="/live")
                await agreed(conns[1], until, b"; server_no_context_takeover", path="/live")
                for conn in conns * 2:
                    op, data = await stream.read_message(conn, until)
                    equal(op, 1, "opcode")
                    json.loads(data)
                    equal(conn.packed, True, "compressed")
