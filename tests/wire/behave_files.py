"""Files that change while they are sent, clients that do not fetch them to their end (see behaviour.py)."""

import asyncio
import contextlib
import hashlib
import os
import re

import site_files as site
import stream
from behaviour import (Wrong, connections, descriptors_are_those_of, ended, equal, fresh_ping, memory,
                       ping, reset, test)

BIG = 30_000_000            # more than the kernel takes for a peer that does not read
GET = b"GET /files/%s HTTP/1.1\r\nHost: a\r\n%s\r\n"


def random_file(demo, name, size):
    """Makes one; answers the digest of its bytes."""
    data = os.urandom(1 << 20) * (size // (1 << 20) + 1)
    with open(os.path.join(demo.site, name), "wb") as out:
        out.write(data[:size])
    return hashlib.sha256(data[:size]).hexdigest()


@contextlib.asynccontextmanager
async def deaf_client(address, request, until):
    """A connection on which a file is asked for and not read, so that it waits in the server."""
    async with connections(address, 1) as (conn,):
        conn.loop.remove_reader(conn.sock)
        await conn.send(request, until)
        await asyncio.sleep(0.2)
        yield conn


def hear(conn):
    conn.loop.add_reader(conn.sock, conn._readable)


def files_open(demo):
    """How many files below the folder of the test the demo has open."""
    count = 0
    for fd in os.listdir("/proc/%d/fd" % demo.pid):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink("/proc/%d/fd/%s" % (demo.pid, fd)).startswith(demo.site + "/")
    return count


async def files_open_become(demo, count, until):
    loop = asyncio.get_running_loop()
    while files_open(demo) != count:
        if loop.time() > until:
            raise Wrong("%d open files wanted, there are %d" % (count, files_open(demo)))
        await asyncio.sleep(0.02)


@test
async def a_big_file_arrives_as_it_is(bench):
    """Whole and in ranges, read at once and read late, one behind the other."""
    with bench.demo("--files", "site") as demo:
        digest = random_file(demo, "big.bin", BIG)
        for address in (demo.tcp, demo.unix):
            until = bench.until(30)
            async with deaf_client(address, GET % (b"big.bin", b"") * 2 +
                                   GET % (b"big.bin", b"Range: bytes=1000000-\r\n"), until) as conn:
                hear(conn)
                for status, size in ((200, BIG), (200, BIG), (206, BIG - 1000000)):
                    answer = await stream.read_answer(conn, until)
                    equal((answer.status, len(answer.body)), (status, size), "the answer")
                    if size == BIG:
                        equal(hashlib.sha256(answer.body).hexdigest(), digest, "the digest")
                await ping(conn, until)
        await files_open_become(demo, 0, bench.until(2))


@test
async def a_client_that_leaves_gives_its_file_back(bench):
    """Some with a reset, some in order, in the middle of a file: the demo lives on, nothing stays open."""
    with bench.demo("--files", "site") as demo:
        until = bench.until(30)
        random_file(demo, "big.bin", BIG)
        for address in (demo.tcp, demo.unix):
            async with connections(address, 30) as conns:
                for conn in conns:
                    await conn.send(GET % (b"big.bin", b""), until)
                await conns[0].need(100000, until, "the beginning of a file")
                await files_open_become(demo, 30, until)
                for conn in conns[:15] if address == demo.tcp else []:
                    reset(conn)
            await descriptors_are_those_of(demo, 0, bench.until(5))
            await files_open_become(demo, 0, bench.until(2))
        await fresh_ping(demo.tcp, until)


@test
async def a_file_that_shrinks_ends_the_connection(bench):
    """The length was promised: what is there arrives, and never an answer that looks whole."""
    with bench.demo("--files", "site") as demo:
        random_file(demo, "big.bin", BIG)
        until = bench.until(20)
        async with deaf_client(demo.tcp, GET % (b"big.bin", b"") + GET % (b"hello.txt", b""),
                               until) as conn:
            os.truncate(os.path.join(demo.site, "big.bin"), 1000)
            hear(conn)
            while not conn.ended:
                await conn.arrival(until)
            head, _, body = bytes(conn.data).partition(b"\r\n\r\n")
            if b"Content-Length: %d\r\n" % BIG not in head + b"\r\n":
                raise Wrong("not the promised length: %s" % stream.shown(head, 600))
            if len(body) >= BIG:
                raise Wrong("%d bytes of a file that was cut to 1,000" % len(body))
        await files_open_become(demo, 0, bench.until(2))
        await fresh_ping(demo.tcp, until)
        equal("ended before its length" in demo.errors(), True, "a word in the log")


@test
async def a_file_that_grows_is_sent_as_it_was_promised(bench):
    with bench.demo("--files", "site") as demo:
        digest = random_file(demo, "big.bin", BIG)
        until = bench.until(20)
        async with deaf_client(demo.tcp, GET % (b"big.bin", b""), until) as conn:
            with open(os.path.join(demo.site, "big.bin"), "ab") as more:
                more.write(b"more" * 100000)
            hear(conn)
            answer = await stream.read_answer(conn, until)
            equal(hashlib.sha256(answer.body).hexdigest(), digest, "the digest")
            await ping(conn, until)


@test
async def a_file_that_is_replaced_is_sent_as_it_was(bench):
    """By rename, as careful programs do it; the next request gets the new one, with another tag."""
    with bench.demo("--files", "site") as demo:
        digest = random_file(demo, "big.bin", BIG)
        until = bench.until(20)
        async with deaf_client(demo.tcp, GET % (b"big.bin", b""), until) as conn:
            random_file(demo, "new.bin", 1000)
            os.rename(os.path.join(demo.site, "new.bin"), os.path.join(demo.site, "big.bin"))
            hear(conn)
            old = await stream.read_answer(conn, until)
            equal(hashlib.sha256(old.body).hexdigest(), digest, "the digest")
            await conn.send(GET % (b"big.bin", b""), until)
            new = await stream.read_answer(conn, until)
            equal(len(new.body), 1000, "bytes of the new file")
            if old.one("ETag") == new.one("ETag"):
                raise Wrong("two files with the tag " + new.one("ETag"))


@test
async def the_tag_of_a_fresh_file_is_weak(bench):
    """RFC 9110 8.8.1: it could change again within the same tick of the clock. So no part of it is joined to
    another; what is cached is revalidated all the same, also when the tag has become strong."""
    with bench.demo("--files", "site") as demo:
        until = bench.until(20)
        async with connections(demo.tcp, 1) as (conn,):
            path = os.path.join(demo.site, "fresh.txt")
            with open(path, "wb") as out:
                out.write(b"fresh")
            await conn.send(GET % (b"fresh.txt", b""), until)
            tag = (await stream.read_answer(conn, until)).one("ETag")
            equal(tag[:2], "W/", "how the tag begins")
            for field, status in (("If-Range", 200), ("If-None-Match", 304)):
                more = "%s: %s\r\nRange: bytes=0-1\r\n" % (field, tag)
                await conn.send(GET % (b"fresh.txt", more.encode()), until)
                equal((await stream.read_answer(conn, until)).status, status, field)
            past = os.stat(path).st_mtime_ns - 10 ** 10
            os.utime(path, ns=(past, past))
            await conn.send(GET % (b"fresh.txt", b""), until)
            equal((await stream.read_answer(conn, until)).one("ETag")[:1], '"', "later")


@test
async def a_file_takes_no_memory_and_one_descriptor(bench):
    """However big it is, and however many more are asked for behind it."""
    with bench.demo("--files", "site", "--write-timeout-ms", "60000") as demo:
        until = bench.until(30)
        with open(os.path.join(demo.site, "huge.bin"), "wb") as out:
            os.truncate(out.fileno(), 5 << 30)      # beyond 32 bits; of zeros, which take no room
        await fresh_ping(demo.tcp, until)
        before = memory(demo)
        async with connections(demo.tcp, 8) as conns:
            for conn in conns:
                conn.loop.remove_reader(conn.sock)
                await conn.send(GET % (b"huge.bin", b"") * 20, until)
            await files_open_become(demo, 8, until)
            await asyncio.sleep(0.3)
            equal(files_open(demo), 8, "open files")
            grown = memory(demo) - before
            if grown > 16 << 20:
                raise Wrong("%d MiB of memory for 8 files that wait" % (grown >> 20))
            await fresh_ping(demo.tcp, until)
            hear(conns[0])
            await conns[0].line(until, "a status line")
            while b"\r\n\r\n" not in conns[0].data:
                await conns[0].arrival(until)
            equal(b"Content-Length: 5368709120\r\n" in conns[0].data, True, "the length")
        await descriptors_are_those_of(demo, 0, bench.until(5))


@test
async def files_in_a_pipeline_are_open_one_at_a_time(bench):
    """Even those of which several would fit below the mark of the send queue."""
    with bench.demo("--files", "site", "--write-timeout-ms", "60000") as demo:
        until = bench.until(30)
        random_file(demo, "mid.bin", 60000)
        async with deaf_client(demo.tcp, GET % (b"mid.bin", b"") * 150, until) as conn:
            for _ in range(30):
                if files_open(demo) > 1:
                    raise Wrong("%d files are open" % files_open(demo))
                await asyncio.sleep(0.01)
            await files_open_become(demo, 1, until)
            hear(conn)
            for _ in range(150):
                equal(len((await stream.read_answer(conn, until)).body), 60000, "bytes of a file")
            await ping(conn, until)


@test
async def who_does_not_read_a_file_is_dropped(bench):
    with bench.demo("--files", "site", "--write-timeout-ms", "500") as demo:
        until = bench.until(20)
        random_file(demo, "big.bin", BIG)
        async with deaf_client(demo.tcp, GET % (b"big.bin", b""), until):
            await files_open_become(demo, 0, until)
        await fresh_ping(demo.tcp, until)


@test
async def a_stop_waits_for_the_file_under_way(bench):
    with bench.demo("--files", "site", "--drain-ms", "20000") as demo:
        until = bench.until(20)
        digest = random_file(demo, "big.bin", BIG)
        async with deaf_client(demo.tcp, GET % (b"big.bin", b""), until) as conn:
            stopping = asyncio.get_running_loop().run_in_executor(None, demo.stop)
            await asyncio.sleep(0.2)
            hear(conn)
            answer = await stream.read_answer(conn, until)
            equal(hashlib.sha256(answer.body).hexdigest(), digest, "the digest")
            await ended(conn, until)
            equal(await stopping, None, "how it ended")


def parts(answer):
    """The parts of multipart/byteranges: [(Content-Range, bytes)], read by RFC 9110 14.6."""
    kind = answer.one("Content-Type")
    boundary = re.fullmatch(r"multipart/byteranges; boundary=([0-9a-f]{32})", kind)
    if not boundary:
        raise Wrong("Content-Type: " + kind)
    line = b"\r\n--" + boundary[1].encode()
    first, *middle, last = (b"\r\n" + answer.body).split(line)
    equal((first, last), (b"", b"--\r\n"), "what stands around the parts")
    found = []
    for part in middle:
        head, _, data = part.partition(b"\r\n\r\n")
        fields = dict(l.split(b": ", 1) for l in head.split(b"\r\n") if l)
        equal(fields[b"Content-Type"], b"application/octet-stream", "Content-Type of a part")
        found.append((fields[b"Content-Range"].decode(), data))
    return found


@test
async def every_part_has_its_bytes(bench):
    with bench.demo("--files", "site") as demo:
        until = bench.until(20)
        data = site.LARGE
        async with connections(demo.tcp, 1) as (conn,):
            for asked in ([(0, 0), (200, 299)], [(319999, 319999), (0, 99)],
                          [(i * 20000, i * 20000 + 9999) for i in range(16)]):
                spec = ",".join("%d-%d" % r for r in asked)
                await conn.send(GET % (b"large.bin", b"Range: bytes=%s\r\n" % spec.encode()), until)
                answer = await stream.read_answer(conn, until)
                equal(answer.status, 206, "the status")
                equal(parts(answer), [("bytes %d-%d/%d" % (a, b, len(data)), data[a:b + 1])
                                      for a, b in asked], "the parts")
