"""Behaviour under many clients and requests (see behaviour.py)."""

import asyncio
import hashlib
import os
import signal

import casefile
import stream
from behaviour import (Wrong, calm, connections, echo, equal, fresh_ping, message, ping, stats,
                       test, threads_are_those_of, websocket)


async def pipelined_client(conn, number, until):
    """20 requests with bodies of their own, in pieces of an odd size."""
    sent = b""
    bodies = [b"%d-%d." % (number, i) * (i % 7) for i in range(20)]
    for body in bodies:
        sent += b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    size = 1 + number * 37 % 211
    for at in range(0, len(sent), size):
        await conn.send(sent[at:at + size], until)
        if at // size % 8 == 0:
            await asyncio.sleep(0)
    for body in bodies:
        answer = await stream.read_answer(conn, until)
        equal((answer.status, answer.body), (200, body), "client %d" % number)


@test
async def three_hundred_clients_with_pipelined_requests_are_answered_in_order(bench):
    with bench.demo() as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 150) as tcp, connections(demo.unix, 150) as unix:
            await asyncio.gather(*(pipelined_client(conn, number, until)
                                   for number, conn in enumerate(tcp + unix)))
            await threads_are_those_of(demo, 300, until)


@test
async def thousands_of_small_requests_are_answered_without_a_wait_between(bench):
    count = 4000
    sent = b"".join(b"GET /echo HTTP/1.1\r\nHost: a\r\nX-Number: %016d\r\n\r\n" % i
                    for i in range(count))

    async def send(conn, until):
        for at in range(0, len(sent), 7919):
            await conn.send(sent[at:at + 7919], until)

    with bench.demo() as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 1) as (conn,):
            sending = asyncio.ensure_future(send(conn, until))
            for i in range(count):
                answer = await stream.read_answer(conn, until)
                if b"X-Number: %016d\n" % i not in answer.body:
                    raise Wrong("answer %d is to another request: %s"
                                % (i, stream.shown(answer.body)))
            await sending


@test
async def a_client_that_reads_no_answers_is_not_read_for_ever(bench):
    """Its requests wait in its own socket; then it reads, and every answer is there."""
    count = 3000        # far more bytes than kernels buffer
    sent = b"GET /echo HTTP/1.1\r\nHost: a\r\nX-Pad: %s\r\n\r\n" % (b"p" * 12000) * count
    with bench.demo() as demo:
        until = bench.until(30)
        async with connections(demo.tcp, 1) as (conn,):
            conn.loop.remove_reader(conn.sock)
            sending = asyncio.ensure_future(conn.send(sent, until))
            await calm(demo, "while nobody reads the answers", bench.until())
            if sending.done():
                raise Wrong("the server took %d bytes of requests and nobody read" % len(sent))
            conn.loop.add_reader(conn.sock, conn._readable)
            for _ in range(count):
                equal((await stream.read_answer(conn, until)).status, 200, "status")
            await sending


@test
async def a_crowd_of_connects_does_not_stop_the_others(bench):
    with bench.demo() as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 20) as steady:
            for conn in steady:
                await ping(conn, until)
            async with connections(demo.tcp, 1000) as crowd:
                before = asyncio.get_running_loop().time()
                for conn in steady:
                    await ping(conn, until)
                waited = asyncio.get_running_loop().time() - before
                if waited > 2 * bench.factor:
                    raise Wrong("20 pings took %.1f s" % waited)
                await asyncio.gather(*(ping(conn, until) for conn in crowd))


async def many_websockets(bench, count, *options):
    """They are spread over the loops, cost no time, and all answer."""
    with bench.demo(*options) as demo:
        until = bench.until(30)
        async with connections(demo.tcp, count) as conns:
            for at in range(0, count, 100):
                await asyncio.gather(*(websocket(c, until) for c in conns[at:at + 100]))
            await threads_are_those_of(demo, count, until)
            await calm(demo, "with %d idle WebSockets" % count, bench.until())
            counts = (await stats(demo, until))["loop_connections"]
            equal(len(counts), demo.config.loops, "loops")
            if not demo.config.threaded and (sum(counts) != count + 1 or
                                             max(counts) > 1.1 * min(counts) + 1):
                raise Wrong("the loops hold %s connections" % counts)
            for number, conn in enumerate(conns):
                await conn.send(casefile.frame(0x89, b"%d" % number), until)
            for number, conn in enumerate(conns):
                await message(conn, until, 10, b"%d" % number)


@test
async def two_thousand_websockets_are_spread_and_all_answer_a_ping(bench):
    await many_websockets(bench, 500 if bench.config.threaded else 2000)


@test(only=("auto",))
async def two_thousand_websockets_are_spread_over_four_loops(bench):
    await many_websockets(bench, 2000, "--epoll-threads", "4")


@test
async def messages_of_every_size_reach_a_slow_reader_whole(bench):
    """The reader takes nothing until the sender is stuck or done; then every byte must be right."""
    sizes = [1, 70000, 125, 126, 65535, 65536, 16384, 4096, 2] + list(range(1, 70000, 997))
    messages = [bytes([65 + n % 26]) * size for n, size in enumerate(sizes)]
    with bench.demo() as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 1) as (conn,):
            await websocket(conn, until)
            conn.loop.remove_reader(conn.sock)
            frames = b"".join(casefile.frame(0x82, m, b"\x11\x22\x33\x44") for m in messages)
            sending = asyncio.ensure_future(conn.send(frames, until))
            await asyncio.wait([sending], timeout=0.5 * bench.factor)
            conn.loop.add_reader(conn.sock, conn._readable)
            for data in messages:
                await message(conn, until, 2, data)
            await sending


@test
async def a_listener_that_reads_nothing_does_not_slow_the_chat(bench):
    with bench.demo() as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 5) as conns, connections(demo.tcp, 1) as (deaf,):
            for conn in conns + [deaf]:
                await websocket(conn, until, "/chat")
            deaf.loop.remove_reader(deaf.sock)
            for number in range(150):
                text = b"%03d" % number + b"m" * 60000
                await conns[0].send(casefile.frame(0x81, text), until)
                for conn in conns:
                    await message(conn, until, 1, text)


@test
async def a_chat_message_reaches_everyone_once_and_in_order(bench):
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 20) as conns:
            for conn in conns:
                await websocket(conn, until, "/chat")
            for number in range(20):
                await conns[number % 2].send(casefile.frame(0x81, b"n%d" % number), until)
                for conn in conns:
                    await message(conn, until, 1, b"n%d" % number)
            for conn in conns:
                await conn.send(casefile.frame(0x89, b"end"), until)
                await message(conn, until, 10, b"end")


@test
async def a_megabyte_upload_in_many_pieces_is_hashed_right(bench):
    data = os.urandom(1 << 20)
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 2) as (plain, chunked):
            await plain.send(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
                             % len(data) + data, until)
            body = b"".join(b"%x\r\n%s\r\n" % (len(data[at:at + 3001]), data[at:at + 3001])
                            for at in range(0, len(data), 3001)) + b"0\r\n\r\n"
            await chunked.send(b"POST /upload HTTP/1.1\r\nHost: a\r\n"
                               b"Transfer-Encoding: chunked\r\n\r\n" + body, until)
            for conn in (plain, chunked):
                answer = await stream.read_answer(conn, until)
                if hashlib.sha256(data).hexdigest().encode() not in answer.body:
                    raise Wrong("another hash: " + stream.shown(answer.body))


@test
async def being_stopped_and_continued_harms_nobody(bench):
    """epoll_wait ends with EINTR then; that is no error."""
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 10) as conns:
            for conn in conns[:5]:
                await websocket(conn, until)
            for turn in range(6):
                os.kill(demo.pid, signal.SIGSTOP)
                await asyncio.sleep(0.01 * (turn % 2))
                os.kill(demo.pid, signal.SIGCONT)
                for conn in conns[:5]:
                    await echo(conn, until, b"turn %d" % turn)
                for conn in conns[5:]:
                    await ping(conn, until)


@test
async def idle_connections_cost_no_processor_time(bench):
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 100) as conns:
            for number, conn in enumerate(conns):
                await (websocket(conn, until) if number % 2 else ping(conn, until))
            await calm(demo, "with 100 idle connections", until)


@test
async def out_of_descriptors_the_server_waits_without_spinning(bench):
    with bench.demo(files=64) as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 100) as conns:
            for conn in conns:
                await conn.send(b"GET /ping HTTP/1.1\r\nHost: a\r\n\r\n", until)
            await calm(demo, "while out of descriptors", bench.until())
            served = [c for c in conns if c.data]
            room = 64 - demo.config.descriptors_with(0, demo.fresh)
            each = demo.config.descriptors_with(1, 0) - demo.config.descriptors_with(0, 0)
            if not room // each - 4 <= len(served) <= room // each + 1:
                raise Wrong("%d of 100 clients are served, with %d descriptors left and %d for each"
                            % (len(served), room, each))
            for conn in served:
                conn.fin()
                conn.close()
            for conn in conns:
                if conn not in served:
                    answer = await stream.read_answer(conn, until)
                    equal(answer.status, 200, "status for a client that waited")
                    conn.fin()
                    conn.close()
            conns.clear()
        await fresh_ping(demo.tcp, until)
        await fresh_ping(demo.unix, until)
