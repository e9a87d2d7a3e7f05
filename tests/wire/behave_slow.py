"""Handlers that take long, and what becomes of everybody else (see behaviour.py). Answers are
counted; no test here is about speed."""

import asyncio

import casefile
import stream
from behaviour import (Wrong, connections, echo, ended, equal, fresh_ping, memory, message, ping,
                       reset, stats, test, threads_are_those_of, websocket)


def slow(ms):
    return b"GET /slow?ms=%d HTTP/1.1\r\nHost: a\r\n\r\n" % ms


async def sit(conn, ms, until, count=None, over=None):
    """/slow again and again, so many times or until it is over; answers how often."""
    turns = 0
    while turns != count and not (over and over.is_set()):
        await conn.send(slow(ms), until)
        equal((await stream.read_answer(conn, until)).status, 200, "/slow")
        turns += 1
    return turns


async def pings_beside_eight_slow_clients(bench, *options):
    """100 pings, which would take 160 s if each waited for all that sit before it."""
    with bench.demo(*options) as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 8) as sitting, connections(demo.tcp, 4) as quick:
            over = asyncio.Event()
            await asyncio.gather(*(sit(conn, 200, until, count=1) for conn in sitting))
            turns = [asyncio.ensure_future(sit(conn, 200, until, over=over)) for conn in sitting]
            try:
                limit = bench.until(5)
                for _ in range(25):
                    await asyncio.gather(*(ping(conn, limit) for conn in quick))
            finally:
                over.set()
                await asyncio.wait(turns)
            for turn in turns:
                turn.result()


@test(only=("auto", "pool", "threads"))
async def a_ping_is_answered_beside_eight_slow_clients(bench):
    await pings_beside_eight_slow_clients(bench)


@test(only=("auto", "inline", "pool", "affine"))
async def a_pool_for_slow_routes_keeps_them_apart(bench):
    await pings_beside_eight_slow_clients(bench, "--slow-threads", "8")


@test(only=("inline", "affine"))
async def a_pool_for_slow_routes_that_is_too_small_harms_nobody_else(bench):
    await pings_beside_eight_slow_clients(bench, "--slow-threads", "2")


# ---- auto

@test(only=("auto",))
async def a_late_handler_loses_its_loop_to_a_spare_thread(bench):
    """All are on one loop; the slow one is still at it when the others are done."""
    with bench.demo("--epoll-threads", "1", "--pool-threads", "4") as demo:
        until = bench.until()
        async with connections(demo.tcp, 2) as sitting, connections(demo.tcp, 20) as others:
            for conn in others[:10]:
                await websocket(conn, until)
            for conn, path in zip(sitting, (b"/slow", b"/burn")):
                await conn.send(b"GET %s?ms=%d HTTP/1.1\r\nHost: a\r\n\r\n"
                                % (path, 2000 * bench.factor), until)
            for turn in range(5):
                for conn in others[:10]:
                    await echo(conn, until, b"turn %d" % turn)
                for conn in others[10:]:
                    await ping(conn, until)
            equal([bytes(conn.data) for conn in sitting], [b"", b""], "answers of the slow ones")
            if (await stats(demo, until))["auto_late"] < 2:
                raise Wrong("no loop was taken over")
            for conn in sitting:
                equal((await stream.read_answer(conn, until)).status, 200, "slow answer")
                await ping(conn, until)


@test(only=("auto",))
async def auto_learns_that_a_path_is_slow_and_forgets_it(bench):
    """Late is what takes 30 ms here, so that a busy machine makes nothing late by itself."""
    with bench.demo("--handoff-us", "30000") as demo:
        until = bench.until(20)

        async def pool_jobs():
            return (await stats(demo, until))["pool_jobs"]

        async with connections(demo.tcp, 2) as (one, other):
            await sit(one, 100, until, count=1)
            if (await stats(demo, until))["auto_late"] < 1:
                raise Wrong("the first slow call was not late")
            before = await pool_jobs()
            for conn in (one, other):
                await sit(conn, 100, until, count=3)
            grown = await pool_jobs() - before
            if grown < 6:
                raise Wrong("6 calls of a path known as slow, but only %d went to the pool" % grown)
            for _ in range(10):
                before = await pool_jobs()
                await sit(other, 0, until, count=20)
                if await pool_jobs() == before:
                    break
            else:
                raise Wrong("200 quick calls, and they still go to the pool")
            await sit(one, 100, until, count=1)
            before = await pool_jobs()
            await sit(one, 100, until, count=3)
            if await pool_jobs() < before + 3:
                raise Wrong("the path was not learnt a second time")


@test(only=("auto",))
async def auto_without_a_spare_thread_goes_on_when_one_comes_free(bench):
    """Two late handlers of different paths, and one spare thread."""
    with bench.demo("--epoll-threads", "1", "--pool-threads", "1") as demo:
        until = bench.until()
        async with connections(demo.tcp, 2) as sitting, connections(demo.tcp, 10) as others:
            await sitting[0].send(slow(700), until)
            await asyncio.gather(*(ping(conn, until) for conn in others))
            await sitting[1].send(b"GET /burn?ms=300 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            await asyncio.gather(*(ping(conn, until) for conn in others))
            for conn in sitting:
                equal((await stream.read_answer(conn, until)).status, 200, "slow answer")
            seen = await stats(demo, until)
            if seen["auto_stalled"] < 1:
                raise Wrong("no stall was counted: %s" % seen)
            await asyncio.gather(*(ping(conn, until) for conn in others + sitting))
            await threads_are_those_of(demo, 12, until)


# ---- full queues

def narrow(bench):
    """One thread and room for one callback to wait."""
    return (("--work-op-threads", "1") if bench.config.exec == "affine" else
            ("--pool-threads", "1")) + ("--pool-queue", "1")


async def once_there_is_room(function, where, until):
    """What function(where, until) brings. The queue is so short that it may be full with
    what others leave behind."""
    while True:
        try:
            return await function(where, until)
        except Wrong:
            if asyncio.get_running_loop().time() > until:
                raise
            await asyncio.sleep(0.02)


async def burst(conns, ms, until):
    """A slow request on each; their answers, None where the connection ended without one."""
    for conn in conns:
        await conn.send(slow(ms), until)
    answers = []
    for conn in conns:
        while not conn.data and not conn.ended:
            await conn.arrival(until)
        answers.append(await stream.read_answer(conn, until) if conn.data else None)
    return answers


@test(only=("auto", "pool", "affine"))
async def a_full_queue_refuses_requests_and_loses_no_message(bench):
    with bench.demo(*narrow(bench)) as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 8) as conns, connections(demo.tcp, 4) as sockets:
            for conn in sockets:
                await websocket(conn, until)
            talk = [b"%d " % n * (1 + n * 97 % 900) for n in range(60)]
            pieces = b"".join(casefile.frame(0x81, text, b"\1\2\3\4") for text in talk)
            sending = asyncio.gather(*(conn.send(pieces, until) for conn in sockets))
            answers = await burst(conns, 400, until)
            await sending
            for conn in sockets:
                for text in talk:
                    await message(conn, until, 1, text)
            statuses = sorted(a.status for a in answers)
            if set(statuses) != {200, 503}:
                raise Wrong("200 and 503 wanted, came %s" % statuses)
            for conn, answer in zip(conns, answers):
                if answer.status == 200:
                    equal(answer.closes(), False, "Connection: close on a 200")
                    continue
                if not (answer.one("Retry-After") or "").isdigit() or not answer.closes():
                    raise Wrong("a 503 with %s" % answer.fields)
                await ended(conn, until)
            seen = await once_there_is_room(stats, demo, until)
            equal(seen["pool_full"] > 0, True, "pool_full was counted")
            for conn in sockets:
                await echo(conn, until, b"and on")


@test(only=("pool", "affine"))
async def a_full_queue_can_let_requests_wait(bench):
    with bench.demo(*narrow(bench), "--pool-full", "wait") as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 8) as conns, connections(demo.tcp, 4) as sockets:
            for conn in sockets:
                await websocket(conn, until)
            answers = asyncio.ensure_future(burst(conns, 100, until))
            for turn in range(3):
                await asyncio.gather(*(echo(c, until, b"%d" % turn) for c in sockets))
            equal([a and a.status for a in await answers], [200] * 8, "statuses")
            await asyncio.gather(*(ping(conn, until) for conn in conns))


@test(only=("pool", "affine"))
async def a_full_queue_can_close_connections(bench):
    with bench.demo(*narrow(bench), "--pool-full", "close") as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 8) as conns:
            answers = await burst(conns, 400, until)
            equal({a and a.status for a in answers}, {200, None}, "statuses")
            for conn, answer in zip(conns, answers):
                if not answer:
                    await ended(conn, until)
            await once_there_is_room(fresh_ping, demo.tcp, until)


@test(only=("pool", "affine"))
async def a_full_queue_can_refuse_messages(bench):
    """1013: try again later."""
    with bench.demo(*narrow(bench), "--pool-full", "refuse") as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 3) as conns, connections(demo.tcp, 1) as (socket,):
            await websocket(socket, until)
            for conn in conns[:2]:                      # one runs, one waits
                await conn.send(slow(1000 * bench.factor), until)
                await asyncio.sleep(0.2 * bench.factor)
            equal((await burst(conns[2:], 1, until))[0].status, 503, "status of one too many")
            await socket.send(casefile.frame(0x81, b"hello", b"\1\2\3\4"), until)
            op, data = await stream.read_message(socket, until)
            equal((op, data[:2]), (8, (1013).to_bytes(2, "big")), "Close")
            await socket.send(casefile.frame(0x88, data[:2]), until)
            await ended(socket, until)
            for conn in conns[:2]:
                equal((await stream.read_answer(conn, until)).status, 200, "status")
            await once_there_is_room(fresh_ping, demo.tcp, until)


@test(only=("auto", "pool", "affine"))
async def two_thousand_requests_that_wait_make_no_thread(bench):
    number = ("--work-op-threads" if bench.config.exec == "affine" else "--pool-threads", "16")
    with bench.demo(*number, "--pool-queue", "3000") as demo:
        until = bench.until(30)
        async with connections(demo.tcp, 1000) as some, connections(demo.unix, 1000) as others:
            answers = asyncio.ensure_future(burst(some + others, 30, until))
            most = 0
            while not answers.done():
                await threads_are_those_of(demo, 2000, until)
                if bench.config.exec == "auto":
                    most = max(most, (await stats(demo, until))["pool_waiting"])
                await asyncio.wait([answers], timeout=0.2)
            equal({a and a.status for a in await answers}, {200}, "statuses")
            if bench.config.exec == "auto" and most < 1000:
                raise Wrong("at most %d of 2,000 were waiting" % most)
            await asyncio.gather(*(ping(conn, until) for conn in some + others))
            await threads_are_those_of(demo, 2000, until)


# ---- peers that do not read

@test
async def a_hundred_peers_that_never_read_disturb_nobody(bench):
    limit = 100 * (262144 + 65536)      # the mark of a send queue, and a piece of the demo's
    limit += 100 * 65536                # stacks, heads, the sanitizers' notes
    with bench.demo() as demo:
        until = bench.until(30)
        async with connections(demo.tcp, 25) as tcp, connections(demo.unix, 75) as unix, \
                connections(demo.tcp, 100) as others:
            for conn in others:
                await websocket(conn, until)
            for conn in tcp + unix:
                await ping(conn, until)
            before = memory(demo)
            for conn in tcp + unix:
                conn.loop.remove_reader(conn.sock)
                await conn.send(b"GET /stream?bytes=50000000 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            for turn in range(10):
                await asyncio.gather(*(echo(c, until, b"%d" % turn * 1000) for c in others))
            await threads_are_those_of(demo, 200, until)
            grown = memory(demo) - before
            if grown > limit:
                raise Wrong("%d MiB of memory for 100 peers that read nothing" % (grown >> 20))
            for conn in tcp + unix:
                reset(conn)
