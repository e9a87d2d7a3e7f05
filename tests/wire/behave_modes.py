"""Which threads there are, and who runs what (see behaviour.py)."""

import asyncio
import re

import stream
from behaviour import (Wrong, connections, echo, equal, ping, stats, test, threads_are_those_of,
                       websocket)

WHOAMI = b"GET /whoami HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = re.compile(rb"HTTP/1\.1 200 OK\r\n(?:(?:Content-Length: (\d+)|[^\r\n]+)\r\n)+\r\n")


@test
async def the_threads_are_as_many_as_the_options_say(bench):
    for more in ((), ("--slow-threads", "3")):
        with bench.demo(*more) as demo:
            until = bench.until()
            wanted = demo.config.threads
            equal(demo.threads, wanted, "announced threads")
            await threads_are_those_of(demo, 0, until)
            equal((await stats(demo, until))["threads"], wanted + int(demo.config.threaded),
                  "threads of /stats")
            equal(demo.thread_names().get("ioh-slow", 0), demo.config.slow, "threads of /slow")


@test
async def a_thousand_connections_change_no_thread(bench):
    """Or bring one each, if that is the type."""
    with bench.demo() as demo:
        until = bench.until(30)
        await threads_are_those_of(demo, 0, until)
        async with connections(demo.tcp, 700) as tcp, connections(demo.unix, 300) as unix:
            await asyncio.gather(*(ping(conn, until) for conn in tcp + unix))
            await threads_are_those_of(demo, 1000, until)
            for conn in tcp[:200]:
                await websocket(conn, until)
            rounds = asyncio.gather(*(echo(conn, until, b"hello") for conn in tcp[:200]),
                                    *(ping(conn, until) for conn in tcp[200:] + unix))
            while not rounds.done():
                await threads_are_those_of(demo, 1000, until)
                await asyncio.wait([rounds], timeout=0.05)
            await rounds
            await threads_are_those_of(demo, 1000, until)
        await threads_are_those_of(demo, 0, until)


def quick_answers(data):
    """The bodies of all whole answers in data, and where the rest begins; every check that
    stream.read_answer() makes would take longer than the server."""
    bodies, at = [], 0
    while True:
        head = HEAD.match(data, at)
        if not head or len(data) < head.end() + int(head.group(1)):
            return bodies, at
        at = head.end() + int(head.group(1))
        bodies.append(bytes(data[head.end():at]))


async def who_answers(conn, count, until):
    """The threads ("ID NAME") that answer count pipelined requests: {thread: answers}."""
    sending = asyncio.ensure_future(conn.send(WHOAMI * count, until))
    seen = {(await stream.read_answer(conn, until)).body: 1}
    answers = 1
    while answers < count:
        bodies, end = quick_answers(conn.data)
        conn.take(end)
        if not bodies:
            await conn.need(len(conn.data) + 1, until, "answer %d" % answers)
        for body in bodies:
            seen[body] = seen.get(body, 0) + 1
        answers += len(bodies)
    await sending
    equal((answers, bytes(conn.data)), (count, b""), "answers, and what came behind them")
    return seen


async def one_thread_each(bench, demo, clients, count):
    """Each connection is served by one thread; answers {thread: connections}."""
    until = bench.until(40)
    async with connections(demo.tcp, clients) as conns:
        threads = {}
        for seen in await asyncio.gather(*(who_answers(c, count, until) for c in conns)):
            if len(seen) != 1:
                raise Wrong("one connection was served by %s" % seen)
            name = next(iter(seen)).decode().strip()
            threads[name] = threads.get(name, 0) + 1
    return threads


@test(only=("affine",))
async def a_connection_has_one_work_thread_for_all_its_requests(bench):
    for workers in (2, 5):
        with bench.demo("--work-op-threads", str(workers)) as demo:
            threads = await one_thread_each(bench, demo, 100, 1000 if workers == 2 else 100)
            names = {name.split()[1] for name in threads}
            equal(names, {"ioh-work-%d" % n for n in range(workers)}, "threads that answered")
            equal(len(threads), workers, "thread ids")
            if max(threads.values()) > 1.1 * min(threads.values()) + 1:
                raise Wrong("100 connections are spread so: %s" % threads)


@test(only=("affine",))
async def connections_that_go_make_room_on_their_work_thread(bench):
    """The least loaded one gets the next."""
    with bench.demo("--work-op-threads", "2") as demo:
        until = bench.until()
        async with connections(demo.tcp, 40) as conns:
            threads = {}
            for conn in conns:
                name = next(iter(await who_answers(conn, 1, until)))
                threads.setdefault(name, []).append(conn)
            equal(len(threads), 2, "threads that answered")
            emptied = min(threads)
            for conn in threads[emptied]:
                conn.close()
            gone = len(threads[emptied])
            while (await stats(demo, until))["connections"] > 40 - gone + 1:
                if conn.loop.time() > until:
                    raise Wrong("the connections are still there")
                await asyncio.sleep(0.02)
            async with connections(demo.tcp, gone) as fresh:
                for conn in fresh:
                    equal(set(await who_answers(conn, 1, until)), {emptied}, "who answers")


@test(only=("inline",))
async def inline_the_epoll_thread_answers(bench):
    with bench.demo("--epoll-threads", "2") as demo:
        threads = await one_thread_each(bench, demo, 20, 100)
        equal({name.split()[1] for name in threads}, {"ioh-epoll-0", "ioh-epoll-1"}, "threads")


@test(only=("threads",))
async def each_connection_has_a_thread_of_its_own(bench):
    with bench.demo() as demo:
        threads = await one_thread_each(bench, demo, 100, 100)
        equal(set(threads.values()), {1}, "connections of a thread")


@test(only=("pool",))
async def the_pool_answers_and_shares_the_work(bench):
    """Eight handlers that sleep at a time need eight threads."""
    with bench.demo("--pool-threads", "8") as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 8) as conns:
            seen = {}
            for _ in range(20):
                for conn in conns:
                    await conn.send(b"GET /slow?ms=50 HTTP/1.1\r\nHost: a\r\n\r\n" + WHOAMI, until)
                for conn in conns:
                    equal((await stream.read_answer(conn, until)).status, 200, "status")
                    name = (await stream.read_answer(conn, until)).body.split()[1].decode()
                    seen[name] = seen.get(name, 0) + 1
                if len(seen) == 8:
                    break
            equal(set(seen), {"ioh-pool-%d" % n for n in range(8)}, "threads that answered")
