"""WebSockets under more than a few messages (see behaviour.py)."""

import asyncio
import hashlib

import stream
from behaviour import Wrong, connections, echo, equal, memory, test, websocket

MIB = 1 << 20
# The address sanitizer would keep what was freed.
NO_QUARANTINE = {"ASAN_OPTIONS": "quarantine_size_mb=0:thread_local_quarantine_size_kb=0"}


async def send_frame(conn, size, block, until):
    """One binary frame of that size, under a key of zeros: as it stands."""
    await conn.send(b"\x82\xff" + size.to_bytes(8, "big") + b"\0\0\0\0", until)
    for _ in range(size // len(block)):
        await conn.send(block, until)


async def receive_fragments(conn, demo, size, until):
    """The digest of a message, and the most memory that was seen meanwhile."""
    digest, most, have, fin = hashlib.sha256(), 0, 0, False
    wanted = 2
    while not fin:
        fin, op, data = await stream.read_frame(conn, until)
        equal(op, wanted, "opcode")
        wanted = 0
        digest.update(data)
        if have // (8 * MIB) != (have + len(data)) // (8 * MIB):
            most = max(most, memory(demo))
        have += len(data)
    equal(have, size, "bytes")
    return digest.digest(), most


@test
async def a_message_of_a_hundred_megabytes_goes_through_in_pieces(bench):
    """It is longer than a whole message may be, and takes no more memory than its pieces."""
    size, block = 100 * MIB, bytes(range(256)) * 1024
    with bench.demo(environment=NO_QUARANTINE) as demo:
        until = bench.until(60)
        async with connections(demo.tcp, 2) as (conn, other):
            await websocket(conn, until, "/echo?pieces")
            await websocket(other, until)
            before = memory(demo)
            sending = asyncio.ensure_future(send_frame(conn, size, block, until))
            digest, most = await receive_fragments(conn, demo, size, until)
            await sending
            equal(digest, hashlib.sha256(block * (size // len(block))).digest(), "digest")
            if most - before > 16 * MIB:
                raise Wrong("%d MiB of memory for its pieces" % ((most - before) // MIB))
            await echo(conn, until, b"and on it goes")
            await echo(other, until, b"for all")
