"""What slow clients, crowds and proxies run into (see behaviour.py)."""

import asyncio
import os

import stream
from behaviour import (Wrong, connections, descriptors_are_those_of, ended, equal, fresh_ping,
                       memory, ping, stats, test)

HEAD = b"GET /ping HTTP/1.1\r\nHost: a\r\nX-Slow: "


async def drip(conns, piece, until):
    """A piece to each every second, until all have ended; answers the memory after two rounds."""
    loop = asyncio.get_running_loop()
    while not all(conn.ended for conn in conns):
        if loop.time() > until:
            raise Wrong("%d of %d slow clients are still there"
                        % (sum(not c.ended for c in conns), len(conns)))
        began = loop.time()
        for conn in conns:
            if not conn.ended:
                await conn.send(piece, until)
        yield
        await asyncio.sleep(max(0.05, 1 - (loop.time() - began)))


async def turned_away(address, until, sent=b""):
    """Nothing is said to who connects here; a reset may come while it still connects."""
    try:
        async with connections(address, 1) as (conn,):
            await conn.send(sent, until)
            await ended(conn, until)
            equal(bytes(conn.data), b"", "answer to who is turned away")
    except ConnectionResetError:
        pass


def statuses(conns):
    return {bytes(conn.data[9:12]) for conn in conns}


@test
async def slow_clients_hold_little_and_are_gone_by_their_deadline(bench):
    """2,000 that send a byte of a head every second; fewer where each has a thread."""
    count = 300 if bench.config.threaded else 2000
    deadline = 4000 * bench.factor
    # In the queue of a pool there is room for what all their ends make to be called back.
    with bench.demo("--head-timeout-ms", str(deadline), "--close-timeout-ms", "500",
                    "--pool-queue", "5000") as demo:
        until = bench.until(30)
        await fresh_ping(demo.tcp, until)
        before, rounds = memory(demo), 0
        async with connections(demo.tcp, count // 2) as tcp, \
                connections(demo.unix, count // 2) as unix:
            conns = tcp + unix
            for conn in conns:
                await conn.send(HEAD, until)
            async for _ in drip(conns, b"x", until):
                rounds += 1
                if rounds == 2:
                    each = (memory(demo) - before) // count
                    if bench.factor == 1 and not bench.config.threaded and each > 1024:
                        raise Wrong("a slow client costs %d bytes" % each)
                if not all(conn.ended for conn in conns):
                    await fresh_ping(demo.tcp, until)
            equal(statuses(conns), {b"408"}, "statuses")
            await descriptors_are_those_of(demo, 0, bench.until(3))
            seen = await stats(demo, until)
            equal((seen["hit_head_timeout"], seen["closed_by_deadline"], seen["hit_idle_timeout"]),
                  (count, count, 0), "clients that met their deadline")


@test
async def clients_slow_in_three_ways_disturb_nobody(bench):
    """Of a head, a body and an answer only a little moves; all the while /ping is answered."""
    each, deadline = 40, str(1500 * bench.factor)
    options = [part for name in ("head", "body", "write")
               for part in ("--%s-timeout-ms" % name, deadline)]
    with bench.demo(*options) as demo:
        until = bench.until(30)
        async with connections(demo.tcp, each) as heads, connections(demo.tcp, each) as bodies, \
                connections(demo.tcp, each) as deaf, connections(demo.tcp, 1) as (other,):
            for conn in heads:
                await conn.send(HEAD, until)
            for conn in bodies:
                await conn.send(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n",
                                until)
            for conn in deaf:
                conn.loop.remove_reader(conn.sock)
                await conn.send(b"GET /stream?bytes=50000000 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            async for _ in drip(heads + bodies, b"x", until):
                await ping(other, until)
            equal(statuses(heads + bodies), {b"408"}, "statuses")
            while (await stats(demo, until))["hit_write_timeout"] < each:
                await ping(other, until)
                await asyncio.sleep(0.1)
            seen = await stats(demo, until)
            equal([seen["hit_%s_timeout" % kind] for kind in ("head", "body", "write")],
                  [each] * 3, "deadlines that were hit")


@test
async def beyond_max_connections_clients_are_turned_away_until_there_is_room(bench):
    with bench.demo("--max-connections", "20") as demo:
        until = bench.until(20)
        for turn in range(3):
            async with connections(demo.tcp, 10) as tcp, connections(demo.unix, 9) as unix:
                for conn in tcp + unix:
                    await ping(conn, until)
                async with connections(demo.tcp, 1) as (last,):
                    await ping(last, until)
                    for address in (demo.tcp, demo.unix) * 5:
                        await turned_away(address, until)
                for conn in tcp + unix:
                    await ping(conn, until)
            while demo.descriptors() > demo.config.descriptors_with(0, demo.fresh):
                await asyncio.sleep(0.02)           # its end of the connections is closed, too
                if asyncio.get_running_loop().time() > until:
                    raise Wrong("connections are left over")
        await asyncio.sleep(0.05)
        equal((await stats(demo, until))["hit_max_connections"], 30, "turned away")


@test
async def max_per_address_counts_tcp_clients_by_their_address(bench):
    with bench.demo("--max-per-address", "8") as demo:
        until = bench.until()
        async with connections(demo.tcp, 8) as conns, connections(demo.unix, 20) as unix:
            for conn in conns + unix:
                await ping(conn, until)
            for _ in range(3):
                await turned_away(demo.tcp, until)
            for conn in conns:
                await ping(conn, until)
            equal((await stats(demo, until))["hit_max_per_address"], 3, "turned away")


# ---- behind a proxy

V2 = b"\r\n\r\n\0\r\nQUIT\n"
REAL = b"203.0.113.9:4711"
HEADERS = (
    b"PROXY TCP4 203.0.113.9 198.51.100.1 4711 80\r\n",
    V2 + b"\x21\x11\0\x0c" + bytes((203, 0, 113, 9, 198, 51, 100, 1)) + b"\x12\x67\0\x50",
    # with what else a header may carry: a name, a checksum field, padding
    V2 + b"\x21\x11\0\x1e" + bytes((203, 0, 113, 9, 198, 51, 100, 1)) + b"\x12\x67\0\x50"
    + b"\x02\0\x04host" + b"\x03\0\x04\0\0\0\0" + b"\x04\0\x01\0",
)
PEER = b"GET /peer HTTP/1.1\r\nHost: a\r\n\r\n"


async def peer_is(conn, wanted, until):
    answer = await stream.read_answer(conn, until)
    equal((answer.status, answer.body), (200, wanted), "/peer")


@test
async def the_proxy_header_is_read_once_however_it_is_cut(bench):
    with bench.demo("--proxy-from", "127.0.0.0/8,unix:", "--listen", "127.0.0.1:0",
                    "--listen", "unix:p.sock") as demo:
        until = bench.until(60)
        places = [demo.addresses[2], "unix:" + os.path.join(demo.folder, "p.sock")]
        for header in HEADERS:
            sent = header + PEER
            for cut in range(len(sent) + 1):
                async with connections(places[cut % 2], 1) as (conn,):
                    await conn.send(sent[:cut], until)
                    await asyncio.sleep(0.001)
                    await conn.send(sent[cut:], until)
                    await peer_is(conn, REAL, until)
                    await conn.send(PEER, until)
                    await peer_is(conn, REAL, until)
            for place in places:
                async with connections(place, 1) as (conn,):
                    for n in range(len(sent)):
                        await conn.send(sent[n:n + 1], until)
                        await asyncio.sleep(0.0005)
                    await peer_is(conn, REAL, until)
                async with connections(place, 1) as (conn,):    # three deep, in one write
                    await conn.send(header + PEER * 3, until)
                    for _ in range(3):
                        await peer_is(conn, REAL, until)
                async with connections(place, 1) as (conn,):    # a second header is no request
                    await conn.send(header + PEER + header, until)
                    await peer_is(conn, REAL, until)
                    equal((await stream.read_answer(conn, until)).status, 400, "a second header")
                    await ended(conn, until)
        await fresh_ping(demo.tcp, until)


@test
async def without_a_good_proxy_header_nothing_is_answered(bench):
    with bench.demo("--proxy-from", "127.0.0.0/8,unix:", "--listen", "127.0.0.1:0",
                    "--proxy-from", "192.0.2.0/24", "--listen", "127.0.0.1:0",
                    "--head-timeout-ms", "400") as demo:
        until = bench.until(20)
        bad = [PEER, HEADERS[0].replace(b"4711", b"04711") + PEER,
               HEADERS[0].replace(b"\r", b"") + PEER, HEADERS[0].replace(b"TCP4", b"TCP6") + PEER,
               HEADERS[1].replace(b"\x21\x11", b"\x22\x11") + PEER,
               HEADERS[1].replace(b"\x21\x11", b"\x21\x51") + PEER,
               HEADERS[1].replace(b"\0\x0c", b"\0\x0b") + PEER, b"PROXY " + b"x" * 200]
        for sent in bad:
            await turned_away(demo.addresses[2], until, sent)
        for _ in range(2):
            await turned_away(demo.addresses[3], until, HEADERS[0] + PEER)  # not listed there
        equal((await stats(demo, until))["proxy_refused"], len(bad) + 2, "refused")
        await turned_away(demo.addresses[2], until, HEADERS[1][:20])        # nothing more comes
        seen = await stats(demo, until)
        equal((seen["hit_head_timeout"], seen["proxy_refused"]), (1, len(bad) + 2), "late ones")
        text = demo.errors()
        for words in ("proxy_from: 127.0.0.1:", "no PROXY header"):
            if words not in text:
                raise Wrong("%s wanted in the log: %s" % (words, text[:300]))
