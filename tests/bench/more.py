"""The groups that need other servers: files (nginx) and ab (nginx, libh2o, libmicrohttpd). README.md says what they
mean. Each function gets the Bench of ./run."""
import contextlib
import os
import pathlib
import re
import statistics
import tempfile

import modes
import peers
from processes import Process

INLINE = ("--exec", "inline")
FILES = (  # name, bytes, connections
    ("4 KiB", "4k.bin", 4096, 64),
    ("100 MB", "100m.bin", 100000000, 4),
)
AB_REQUESTS, AB_CONNECTIONS = 20000, 1000
AB_S = 120


def files(bench):
    print("\nfiles: GET of a file beside nginx; MB/s and per second of the server's CPU, medians")
    print(f"{'file':<8} {'server':<8} {'rate/s':>9} {'ratio':>6} {'MB/s':>7} {'CPU µs':>9} {'GB/CPU s':>9} {'ratio':>6}",
          flush=True)
    with tempfile.TemporaryDirectory(prefix="bench-files-") as folder, contextlib.ExitStack() as stack:
        for _, name, size, _ in FILES:
            pathlib.Path(folder, name).write_bytes(bytes(i * 7 & 255 for i in range(4096)) * (size // 4096 + 1))
            with open(pathlib.Path(folder, name), "r+b") as file:
                file.truncate(size)
            os.utime(pathlib.Path(folder, name), (1e9, 1e9))  # a fresh file's ETag is weak, and two bytes longer
        servers = {"nginx": stack.enter_context(peers.start("nginx", bench.server_core, bench.build, folder)),
                   "inline": stack.enter_context(bench.start_demo(INLINE + ("--files", folder))),
                   "auto": stack.enter_context(bench.start_demo(modes.AUTO + ("--files", folder)))}
        for title, name, size, conns in FILES:
            rounds = modes.in_turn(bench, servers, lambda which, n=name, c=conns: get(bench, servers[which], n, c))
            for which, got in rounds.items():
                print(file_row(title, which, got, rounds["nginx"], size), flush=True)


def get(bench, server, name, conns):
    with bench.tool("-p", server.pid, "get", server.port, f"/files/{name}", conns, bench.args.seconds) as tool:
        figures = bench.figures(name, tool)
    return figures if figures and bench.answered(name, figures) else None


def file_row(title, which, got, base, size):
    def middle(key):
        return statistics.median(r[key] for r in got)

    rate = statistics.median(r["rate"] / b["rate"] for r, b in zip(got, base))
    cpu = statistics.median(b["server_cpu_us"] / r["server_cpu_us"] for r, b in zip(got, base))
    return (f"{title:<8} {which:<8} {middle('rate'):>9.0f} {rate:>6.3f} {middle('rate') * size / 1e6:>7.0f} "
            f"{middle('server_cpu_us'):>9.1f} {size / 1e3 / middle('server_cpu_us'):>9.2f} {cpu:>6.3f}")


def ab(bench):
    print(f"\nab -n {AB_REQUESTS} -c {AB_CONNECTIONS}: medians; times in ms")
    print(f"{'server':<8} {'':<10} {'failed':>6} {'rate/s':>8} {'p50':>6} {'p99':>6} {'max':>6}", flush=True)
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(peers.start(name, bench.server_core, bench.build))
                   for name in peers.OF_GROUP["http"]}
        servers["inline"] = stack.enter_context(bench.start_demo(INLINE))
        servers["auto"] = stack.enter_context(bench.start_demo(modes.AUTO))
        for keep in (("-k",), ()):
            rounds = modes.in_turn(bench, servers, lambda which, k=keep: ab_once(bench, servers[which], k))
            for which, got in rounds.items():
                print(ab_row(which, keep, got), flush=True)
                if which in ("inline", "auto") and any(r["failed"] for r in got):
                    bench.fault(f"ab {which}: requests failed")


def ab_once(bench, server, keep):
    text = peers.run("taskset", "-c", str(bench.client_core), "ab", "-q", *keep, "-n", str(AB_REQUESTS), "-c",
                     str(AB_CONNECTIONS), f"http://127.0.0.1:{server.port}/ping", timeout=AB_S)

    def number(pattern):
        found = re.search(pattern, text)
        return float(found.group(1)) if found else 0.0

    return {"failed": number(r"Failed requests:\s+(\d+)") + AB_REQUESTS - number(r"Complete requests:\s+(\d+)"),
            "rate": number(r"Requests per second:\s+([\d.]+)"), "p50": number(r"\n\s+50%\s+(\d+)"),
            "p99": number(r"\n\s+99%\s+(\d+)"), "max": number(r"\n\s+100%\s+(\d+)")}


def ab_row(which, keep, got):
    def middle(key):
        return statistics.median(r[key] for r in got)

    return (f"{which:<8} {'keep-alive' if keep else 'close':<10} {sum(r['failed'] for r in got):>6.0f} "
            f"{middle('rate'):>8.0f} {middle('p50'):>6.0f} {middle('p99'):>6.0f} {middle('max'):>6.0f}")


def parse(bench):
    """In the program itself the two parsers take turns."""
    print("\nparse: request heads, beside http-parser; ns each, medians; ratio = theirs / ours", flush=True)
    with Process(bench.server_core, bench.bin / "parse", bench.args.rounds * 4, 0.05) as program:
        while (line := program.line(60)) is not None:
            print(line, flush=True)
        if program.wait(5):
            bench.fault("parse: the two do not find the same fields")


def publish(bench):
    """What ioh_publish() costs its caller; loop, reader and caller have all cores."""
    for size in (64, 16384):
        with Process(bench.all_cores, bench.bin / "publish", 5000, 100, size) as program:
            print(program.line(AB_S), flush=True)
            if program.wait(5):
                bench.fault("publish: something was not delivered")
