"""The folder behind /files/ in tests: known bytes, known times, and what a server must not show."""

import os

TIME = 1577836800                   # 2020-01-01 00:00:00: entity tags are known, too
LARGE = b"0123456789abcdef" * 20000     # beyond what is sent in one piece with its head

FILES = {
    "hello.txt": b"hello, file\n",
    "empty.txt": b"",
    "digits.bin": b"0123456789" * 100,
    "large.bin": LARGE,
    "dir/index.html": b"<p>index\n",
    "dir/page.html": b"<p>page\n",
    "noindex/x.txt": b"x\n",
    "app.js": b"plain\n",
    "app.js.br": b"as br\n",
    "app.js.gz": b"as gzip\n",
    "only.css.gz": b"gzip alone\n",
    "sp ace%.txt": b"a name\n",
    ".hidden": b"hidden\n",
    ".git/config": b"hidden\n",
    "dir/.secret": b"hidden\n",
    ".well-known/acme": b"known\n",
    "a.b/no-extension": b"bytes\n",
}
LINKS = {
    "inside": "hello.txt",
    "up-and-in": "dir/../hello.txt",
    "outside": "/etc/passwd",
    "up": "../../../../../../etc/passwd",
    "loop": "loop",
    "nowhere": "not-there",
    "dirlink": "dir",
}


def make(folder):
    """Fills a new folder."""
    for name, data in FILES.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(data)
        os.utime(path, (TIME, TIME))
    for name, target in LINKS.items():
        os.symlink(target, os.path.join(folder, name))
    os.mkfifo(os.path.join(folder, "fifo"))


def etag(size, coding=""):
    return '"%x-%x%s"' % (TIME * 10 ** 9, size, "-" + coding if coding else "")
