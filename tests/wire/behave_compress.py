"""Compressed answers: what clients that take gzip get, next to others that do not."""

import zlib

import stream
from behaviour import Wrong, connections, equal, test

TYPES = ("--compress", "text/*, application/json", "--compress-min", "200")
PATTERN = b"0123456789abcdef"


def request(path, gzip, method=b"GET", version=b"1.1"):
    return (method + b" " + path + b" HTTP/" + version + b"\r\nHost: a\r\n"
            + (b"Accept-Encoding: br, gzip;q=0.8\r\n" if gzip else b"") + b"\r\n")


def content(answer, gzip, what):
    """What the answer's body says; every one of these is of a type that is compressed."""
    equal(answer.all("Vary"), ["Accept-Encoding"], what + ": Vary")
    equal(answer.one("Content-Encoding"), "gzip" if gzip else None, what + ": Content-Encoding")
    if not gzip:
        return answer.body
    unpack = zlib.decompressobj(31)
    body = unpack.decompress(answer.body)
    if not unpack.eof or unpack.unused_data:
        raise Wrong(what + ": the gzip stream is not whole, or something stands behind it")
    return body


@test
async def compressed_and_plain_answers_follow_each_other_on_one_connection(bench):
    with bench.demo(*TYPES) as demo:
        until = bench.until()
        paths = [b"/stream?bytes=1000000", b"/stream?bytes=1000000&chunked=1",
                 b"/stream?bytes=2000", b"/stream?bytes=1&chunked=1", b"/stats"]
        wanted = [(path, gzip) for path in paths for gzip in (True, False, True)]
        for address in (demo.tcp, demo.unix):
            async with connections(address, 1) as [conn]:
                await conn.send(b"".join(request(*each) for each in wanted), until)
                for path, gzip in wanted:
                    answer = await stream.read_answer(conn, until)
                    body = content(answer, gzip, path.decode())
                    if b"bytes=" in path:
                        size = int(path.split(b"=")[1].split(b"&")[0])
                        equal(body == (PATTERN * (size // 16 + 1))[:size], True, path.decode())
                    if gzip and len(body) > 1000 and len(answer.body) > len(body) / 2:
                        raise Wrong("%s: %d bytes became %d" % (path, len(body), len(answer.body)))


@test
async def an_old_client_gets_a_compressed_stream_up_to_the_close(bench):
    with bench.demo(*TYPES) as demo:
        until = bench.until()
        async with connections(demo.tcp, 1) as [conn]:
            await conn.send(request(b"/stream?bytes=100000&chunked=1", True, version=b"1.0"), until)
            answer = await stream.read_answer(conn, until)
            equal(len(content(answer, True, "HTTP/1.0")), 100000, "bytes")


@test
async def head_tells_of_the_answer_that_get_brings(bench):
    with bench.demo(*TYPES) as demo:
        until = bench.until()
        async with connections(demo.tcp, 1) as [conn]:
            for path in (b"/stream?bytes=100000&chunked=1", b"/stream?bytes=100000"):
                fields = []
                for method in (b"GET", b"HEAD"):
                    await conn.send(request(path, True, method), until)
                    answer = await stream.read_answer(conn, until, to_head=method == b"HEAD")
                    fields.append([f for f in answer.fields if f[0] != "Date"])
                equal(fields[1], fields[0], path.decode())
