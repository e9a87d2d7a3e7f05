"""Start, stop, listeners (see behaviour.py)."""

import asyncio
import os
import signal
import socket

import casefile
import stream
from behaviour import (Wrong, connections, ended, equal, fails, fresh_ping, ping, stops, test, want,
                       websocket)


@test
async def both_stop_signals_end_it_at_once_when_nobody_is_there(bench):
    for sign in (signal.SIGINT, signal.SIGTERM):
        with bench.demo() as demo:
            await fresh_ping(demo.tcp, bench.until())
            demo.process.send_signal(sign)
            await stops(demo, 2 * bench.factor)


@test
async def it_starts_and_stops_many_times(bench):
    for _ in range(10):
        with bench.demo() as demo:
            await fresh_ping(demo.unix, bench.until())


@test
async def idle_connections_do_not_delay_a_stop(bench):
    with bench.demo() as demo:
        until = bench.until()
        async with connections(demo.tcp, 10) as conns:
            for conn in conns[:5]:
                await ping(conn, until)
            demo.process.send_signal(signal.SIGINT)
            await stops(demo, 2 * bench.factor)
            for conn in conns:
                await ended(conn, until)
                equal(bytes(conn.data), b"", "what came to an idle connection")


@test
async def a_stop_tells_every_websocket_and_waits_in_bounds(bench):
    """RFC 6455 7.4.1: 1001. Some clients answer, some never do."""
    with bench.demo("--drain-ms", "1500", "--close-timeout-ms", "600") as demo:
        until = bench.until()
        async with connections(demo.tcp, 12) as conns:
            for conn in conns:
                await websocket(conn, until, "/live" if conn is conns[0] else "/echo")
            demo.process.send_signal(signal.SIGINT)
            for number, conn in enumerate(conns):
                op, data = 1, b""
                while op == 1:
                    op, data = await stream.read_message(conn, until)
                equal((op, data[:2]), (8, b"\x03\xe9"), "client %d: Close 1001" % number)
                if number < 6:
                    await conn.send(casefile.frame(0x88, b"\x03\xe9"), until)
                    await ended(conn, until)
            await stops(demo, 3.5 * bench.factor)


@test
async def a_stop_is_quick_when_every_websocket_answers(bench):
    with bench.demo("--drain-ms", "8000") as demo:
        until = bench.until()
        async with connections(demo.tcp, 10) as conns:
            for conn in conns:
                await websocket(conn, until)
            demo.process.send_signal(signal.SIGINT)
            for conn in conns:
                equal((await stream.read_message(conn, until))[0], 8, "Close")
                await conn.send(casefile.frame(0x88, b"\x03\xe9"), until)
                await ended(conn, until)
                conn.fin()
            await stops(demo, 2 * bench.factor)


@test
async def closes_that_cross_end_the_handshake(bench):
    """RFC 6455 7.1: the server has begun its close when data and a Close arrive in one segment."""
    with bench.demo("--drain-ms", "8000") as demo:
        until = bench.until()
        async with connections(demo.tcp, 5) as conns:
            for conn in conns:
                await websocket(conn, until)
            demo.process.send_signal(signal.SIGINT)
            for conn in conns:
                equal((await stream.read_message(conn, until))[0], 8, "Close")
                await conn.send(casefile.frame(0x81, b"late") + casefile.frame(0x88, b"\x03\xe8"),
                                until)
                await ended(conn, until)
                equal(bytes(conn.data), b"", "what came behind the Close")
                conn.fin()
            await stops(demo, 2 * bench.factor)


@test
async def a_stop_lets_a_running_answer_end(bench):
    with bench.demo("--drain-ms", "8000") as demo:
        until = bench.until()
        async with connections(demo.tcp, 1) as (conn,):
            await conn.send(b"GET /stream?bytes=20000000 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            await conn.need(1000, until, "a stream")
            conn.loop.remove_reader(conn.sock)
            demo.process.send_signal(signal.SIGINT)
            await asyncio.sleep(0.2)
            conn.loop.add_reader(conn.sock, conn._readable)
            answer = await stream.read_answer(conn, until)
            equal(len(answer.body), 20000000, "bytes of the answer")
            await ended(conn, until)
            conn.fin()
            await stops(demo, 4 * bench.factor)


@test
async def a_stop_does_not_wait_for_a_peer_that_reads_nothing(bench):
    with bench.demo("--drain-ms", "700") as demo:
        until = bench.until()
        async with connections(demo.tcp, 2) as (deaf, slow):
            deaf.loop.remove_reader(deaf.sock)
            await deaf.send(b"GET /stream?bytes=50000000 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            await slow.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhe", until)
            await asyncio.sleep(0.1)
            demo.process.send_signal(signal.SIGINT)
            took = await stops(demo, 3 * bench.factor)
            if took < 0.3:
                raise Wrong("it ended after %.1f s: the drain was not used" % took)


@test
async def nobody_new_is_served_during_a_stop(bench):
    with bench.demo("--drain-ms", "1000") as demo:
        until = bench.until()
        async with connections(demo.tcp, 1) as (deaf,):
            deaf.loop.remove_reader(deaf.sock)
            await deaf.send(b"GET /stream?bytes=50000000 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            await asyncio.sleep(0.1)
            demo.process.send_signal(signal.SIGINT)
            await asyncio.sleep(0.3)
            try:
                await fresh_ping(demo.tcp, until)
            except (Wrong, OSError):
                pass
            else:
                raise Wrong("a new client was served while the server stops")
            await stops(demo, 3 * bench.factor)


@test
async def a_unix_socket_left_by_a_crash_is_replaced(bench):
    with bench.demo() as crashed:
        crashed.process.kill()
        crashed.process.wait()
        crashed.code = -9
        if not os.path.exists(crashed.unix_path):
            raise Wrong("no socket file is left to be replaced")
        with bench.demo(listen=["unix:" + crashed.unix_path]) as demo:
            await fresh_ping("unix:" + crashed.unix_path, bench.until())
            want(demo.stop())
        if os.path.exists(crashed.unix_path):
            raise Wrong("the socket file is still there after the stop")


@test
async def a_unix_socket_in_use_is_refused(bench):
    with bench.demo() as demo:
        fails(bench, 1, listen=[demo.unix], words=[demo.unix_path])
        await fresh_ping(demo.unix, bench.until())


@test
async def a_file_that_is_no_socket_is_not_replaced(bench):
    with bench.demo() as demo:
        path = os.path.join(demo.folder, "precious")
        with open(path, "w") as text:
            text.write("keep me")
        fails(bench, 1, listen=["unix:" + path], words=[path])
        with open(path) as text:
            equal(text.read(), "keep me", "the file")


@test
async def a_port_in_use_is_refused(bench):
    with bench.demo() as demo:
        fails(bench, 1, listen=[demo.tcp], words=[demo.tcp.rsplit(":", 1)[1]])
        await fresh_ping(demo.tcp, bench.until())


@test
async def a_listener_that_is_no_address_is_refused(bench):
    fails(bench, 1, listen=["nonsense"], words=["nonsense"])


@test
async def an_ipv6_listener_serves(bench):
    probe = socket.socket(socket.AF_INET6)
    try:
        probe.bind(("::1", 0))
    except OSError:
        return                              # this machine has no ::1
    finally:
        probe.close()
    with bench.demo(listen=["[::1]:0"]) as demo:
        if not demo.tcp.startswith("[::1]:") or demo.tcp.endswith(":0"):
            raise Wrong("listening %s" % demo.tcp)
        await fresh_ping(demo.tcp, bench.until())
