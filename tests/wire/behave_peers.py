"""Peers that leave, reset, read nothing or do not leave (see behaviour.py)."""

import asyncio
import random

import casefile
import stream
from behaviour import (Wrong, calm, connections, descriptors_are_those_of, echo, ended, equal,
                       fresh_ping, memory, message, ping, reset, test, websocket)

STREAM = b"GET /stream?bytes=%d HTTP/1.1\r\nHost: a\r\n\r\n"


def still_connected(demo, count):
    equal(demo.descriptors(), demo.config.descriptors_with(count, demo.fresh),
          "descriptors with %d open connections" % count)


@test
async def five_hundred_resets_leave_no_descriptor(bench):
    """While idle, with a request half sent, while an answer streams, around an upgrade."""
    with bench.demo() as demo:
        until = bench.until(30)
        for at in range(500):
            conn = stream.Connection(demo.tcp)
            kind = at % 5
            if kind == 1:
                await conn.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhe", until)
            elif kind == 2:
                await conn.send(STREAM % 20000000, until)
                await conn.need(1000, until, "a stream")
            elif kind == 3:
                await conn.send(casefile.upgrade("/echo"), until)
            elif kind == 4:
                await websocket(conn, until)
                await conn.send(b"\x81\x85\0\0\0\0he", until)
            reset(conn)
        await descriptors_are_those_of(demo, 0, bench.until(3))
        await fresh_ping(demo.tcp, until)


@test
async def a_peer_that_leaves_is_noticed_at_once(bench):
    """The idle deadline is a minute away, so only the end of the stream can free them."""
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 20) as some, connections(demo.unix, 20) as others:
            for number, conn in enumerate(some + others):
                if number % 3 == 0:
                    await ping(conn, until)
                elif number % 3 == 1:
                    await websocket(conn, until)
                else:
                    await conn.send(b"GET / HTT", until)
        await descriptors_are_those_of(demo, 0, bench.until(2))


@test
async def a_peer_that_reads_nothing_leaves_the_others_alone(bench):
    with bench.demo() as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 20) as conns, connections(demo.tcp, 1) as (deaf,):
            deaf.loop.remove_reader(deaf.sock)
            for conn in conns:
                await websocket(conn, until)
            before = memory(demo)
            await deaf.send(STREAM % 50000000, until)
            for turn in range(20):
                start = deaf.loop.time()
                await asyncio.gather(*(echo(c, until, b"%d" % turn) for c in conns))
                if deaf.loop.time() - start > bench.factor:
                    raise Wrong("an echo took %.1f s" % (deaf.loop.time() - start))
            grown = memory(demo) - before
            if grown > 16 << 20:
                raise Wrong("%d MiB of memory for one peer that reads nothing" % (grown >> 20))
            await calm(demo, "while a peer reads nothing", until)


@test
async def a_peer_that_reads_late_gets_the_whole_stream(bench):
    with bench.demo() as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 1) as (conn,):
            conn.loop.remove_reader(conn.sock)
            await conn.send(STREAM % 20000000 + STREAM % 5, until)
            await asyncio.sleep(0.3)
            conn.loop.add_reader(conn.sock, conn._readable)
            answer = await stream.read_answer(conn, until)
            if answer.body != b"0123456789abcdef" * (20000000 // 16):
                raise Wrong("20,000,000 bytes wanted, came %d or others" % len(answer.body))
            equal((await stream.read_answer(conn, until)).body, b"01234", "the next answer")


@test
async def the_last_answer_is_whole_although_more_requests_come(bench):
    """RFC 9112 9.6: bytes that nobody reads must not turn the close into a reset that eats it."""
    last = (b"GET /stream?bytes=3000000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            b"POST /nohandler HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n",
            b"BROKEN\r\n\r\n")
    more = b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n" * 100
    with bench.demo() as demo:
        until = bench.until()
        for request, status, size in zip(last, (200, 404, 400), (3000000, 0, 0)):
            async with connections(demo.tcp, 1) as (conn,):
                conn.loop.remove_reader(conn.sock)
                await conn.send(request, until)
                for _ in range(10):
                    await conn.send(more, until)
                    await asyncio.sleep(0.02)
                conn.loop.add_reader(conn.sock, conn._readable)
                answer = await stream.read_answer(conn, until)
                equal(answer.status, status, "status")
                equal(len(answer.body) >= size, True, "a whole body")
                await ended(conn, until)
                equal(bytes(conn.data), b"", "what came behind the last answer")


@test
async def a_half_closed_peer_that_reads_nothing_does_not_spin(bench):
    """Its end of stream stays readable while the answer waits."""
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 3) as conns:
            for conn in conns:
                conn.loop.remove_reader(conn.sock)
                await conn.send(STREAM % 50000000, until)
                conn.fin()
            await calm(demo, "while peers read nothing", until)
            await fresh_ping(demo.tcp, until)
            for conn in conns:
                reset(conn)


@test
async def a_peer_that_reads_nothing_is_ended_at_the_write_deadline(bench):
    with bench.demo("--write-timeout-ms", "700") as demo:
        until = bench.until()
        async with connections(demo.tcp, 1) as (deaf,):
            deaf.loop.remove_reader(deaf.sock)
            await deaf.send(STREAM % 50000000, until)
            await asyncio.sleep(0.5)
            still_connected(demo, 1)
            await descriptors_are_those_of(demo, 0, bench.until(2))
            await fresh_ping(demo.tcp, until)
            reset(deaf)


@test
async def a_peer_that_stops_reading_is_ended_at_the_write_deadline(bench):
    """What it has read does not buy it more than the deadline once again."""
    with bench.demo("--write-timeout-ms", "700") as demo:
        until = bench.until()
        async with connections(demo.tcp, 1) as (conn,):
            conn.loop.remove_reader(conn.sock)
            await conn.send(STREAM % 100000000, until)
            for _ in range(5):
                await asyncio.sleep(0.1)
                left = 2000000
                try:
                    while left > 0:
                        left -= len(conn.sock.recv(left))
                except BlockingIOError:
                    pass
            still_connected(demo, 1)
            await descriptors_are_those_of(demo, 0, bench.until(2))
            reset(conn)


@test
async def a_peer_that_reads_steadily_is_not_ended_at_the_write_deadline(bench):
    with bench.demo("--write-timeout-ms", "500") as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 1) as (conn,):
            conn.loop.remove_reader(conn.sock)
            await conn.send(STREAM % 16000000, until)
            got = 0
            for _ in range(12):
                await asyncio.sleep(0.1)
                try:
                    while got < 16000000:
                        piece = len(conn.sock.recv(200000))
                        got += piece
                        if piece < 200000:
                            break
                except BlockingIOError:
                    pass
            conn.loop.add_reader(conn.sock, conn._readable)
            while got < 16000000:
                await conn.need(1, until, "the rest of the stream, %d bytes" % (16000000 - got))
                got += len(conn.take(len(conn.data)))


@test
async def a_peer_that_stays_after_a_refusal_is_left_at_the_deadline(bench):
    """The server closed its side and lingers, but not for ever."""
    with bench.demo("--close-timeout-ms", "500") as demo:
        until = bench.until()
        async with connections(demo.tcp, 2) as (bad, closing):
            await bad.send(b"BROKEN\r\n\r\n", until)
            await closing.send(b"GET /ping HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", until)
            equal((await stream.read_answer(bad, until)).status, 400, "refusal")
            equal((await stream.read_answer(closing, until)).status, 200, "last answer")
            await ended(bad, until)
            await ended(closing, until)
            await descriptors_are_those_of(demo, 0, bench.until(1.5))


@test
async def a_websocket_peer_that_stays_after_the_close_is_left_at_the_deadline(bench):
    """One broke the protocol, one closed properly; neither closes its TCP side."""
    with bench.demo("--close-timeout-ms", "500") as demo:
        until = bench.until()
        async with connections(demo.tcp, 2) as (bad, proper):
            await websocket(bad, until)
            await websocket(proper, until)
            await bad.send(b"\x83\x80\0\0\0\0", until)
            await proper.send(b"\x88\x82\0\0\0\0\x03\xe8", until)
            equal((await stream.read_message(bad, until))[0], 8, "Close of the server")
            equal((await stream.read_message(proper, until))[0], 8, "Close of the server")
            await descriptors_are_those_of(demo, 0, bench.until(1.5))


@test
async def the_subprotocol_of_one_peer_is_not_given_to_the_next(bench):
    offer = b"Sec-WebSocket-Protocol: echo\r\n"
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 4) as conns:
            for number, conn in enumerate(conns):
                if number >= 2:
                    await ping(conn, until)     # a kept-alive connection
                answer = await websocket(conn, until, "/echo", b"" if number % 2 else offer)
                equal(answer.one("Sec-WebSocket-Protocol"), None if number % 2 else "echo",
                      "subprotocol of client %d" % number)


@test
async def nobody_ever_sees_what_is_for_another(bench):
    """Clients come, send bytes of their own and go, many by a reset, so that descriptor numbers are
    used again at once."""
    async def client(demo, number, until):
        chance = random.Random(number)
        for turn in range(25):
            tag = b"<%d %d>" % (number, turn)
            conn = stream.Connection(demo.tcp)
            try:
                await conn.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s"
                                % (len(tag), tag), until)
                kind = chance.randrange(3)
                if kind:
                    answer = await stream.read_answer(conn, until)
                    equal(answer.body, tag, "what came to client %d" % number)
                if kind < 2:
                    reset(conn)
            finally:
                conn.close()

    with bench.demo() as demo:
        until = bench.until(20)
        await asyncio.gather(*(client(demo, number, until) for number in range(60)))
        await descriptors_are_those_of(demo, 0, bench.until(3))


@test
async def a_chat_goes_on_while_others_come_and_go(bench):
    """Messages are posted to peers that leave in that moment."""
    async def passer_by(demo, until, over):
        turn = 0
        while not over.is_set():
            conn = stream.Connection(demo.tcp)
            try:
                await websocket(conn, until, "/chat")
                await asyncio.sleep(0.001 * (turn % 4))
                if turn % 2:
                    reset(conn)
            finally:
                conn.close()
            turn += 1

    with bench.demo() as demo:
        until = bench.until(20)
        over = asyncio.Event()
        async with connections(demo.tcp, 4) as conns:
            for conn in conns:
                await websocket(conn, until, "/chat")
            passing = [asyncio.ensure_future(passer_by(demo, until, over)) for _ in range(10)]
            try:
                for number in range(200):
                    text = b"%d " % number * 100
                    await conns[number % 4].send(casefile.frame(0x81, text), until)
                    for conn in conns:
                        await message(conn, until, 1, text)
            finally:
                over.set()
                await asyncio.gather(*passing)
        await descriptors_are_those_of(demo, 0, bench.until(3))
