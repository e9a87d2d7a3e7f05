"""What the clients' tests share."""

import hashlib


class Wrong(Exception):
    """The server or the client did something else than it should."""


def equal(have, wanted, what):
    if have != wanted:
        raise Wrong("%s: %s wanted, came %s" % (what, short(wanted), short(have)))


def short(value):
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."


def has(text, part, what):
    if part not in text:
        raise Wrong("%s: %s wanted, came %s" % (what, short(part), short(text)))


def stream_hash(count):
    """SHA-256 of what GET /stream?bytes=count has to bring."""
    pattern = b"0123456789abcdef"
    digest = hashlib.sha256()
    for _ in range(count // 65536):
        digest.update(pattern * 4096)
    digest.update((pattern * 4096)[:count % 65536])
    return digest.hexdigest()
