"""The demo's options and the environment's word on them (see behaviour.py). Threads tell by their
names and number what was chosen, so only one configuration is needed."""

from behaviour import Wrong, connections, equal, fails, fresh_ping, test
from demo import Demo
from report import Configuration

NAMES = {"loops": "ioh-epoll", "pool": "ioh-pool", "workers": "ioh-work"}


async def check_threads(bench, chosen, options, environment=None):
    """Starts a demo; its threads have to be those of the chosen options."""
    config = Configuration("", *chosen)
    with Demo(bench.build, list(options), environment=environment) as demo:
        what = "with %s %s" % (" ".join(options), environment or "")
        equal(demo.threads, config.threads, "announced threads " + what)
        names = demo.thread_names()
        if config.threaded:
            equal(names.get("ioh-accept"), 1, "threads that accept " + what)
            for kind in NAMES.values():
                equal(names.get(kind, 0), 0, "%s threads %s" % (kind, what))
        else:
            for kind, name in NAMES.items():
                equal(names.get(name, 0), getattr(config, kind), "%s threads %s" % (name, what))
            equal(names.get("ioh-watch", 0), int(config.exec == "auto"), "watchers " + what)
            equal(names.get("ioh-slow", 0), config.slow,
                  "threads of /slow " + what)
        await fresh_ping(demo.tcp, bench.until())
        wrong = demo.stop()
        if wrong:
            raise Wrong("%s: %s" % (what, wrong))


@test(only=("auto",))
async def options_choose_the_threads(bench):
    two = "--epoll-threads", "2"
    for options in (two,
                    ("--epoll-threads", "3", "--exec", "auto", "--pool-threads", "5"),
                    (*two, "--exec", "inline"),
                    (*two, "--exec", "inline", "--slow-threads", "3"),
                    (*two, "--exec", "pool"),
                    (*two, "--exec", "pool", "--pool-threads", "3", "--pool-queue", "7",
                     "--pool-full", "wait"),
                    (*two, "--exec", "affine"),
                    (*two, "--exec", "affine", "--work-op-threads", "5"),
                    (*two, "--work-op-threads", "3"),           # this alone selects affine
                    (*two, "--work-op-threads", "3", "--pool-threads", "2"),
                    (*two, "--type", "epoll", "--handoff-us", "5000", "--slow-threads", "2"),
                    ("--type", "threads"),
                    ("--type", "threads", "--slow-threads", "2"),
                    ("--type", "threads", "--exec", "pool", *two)):
        await check_threads(bench, options, options)


@test(only=("auto",))
async def bad_options_are_refused(bench):
    for option in ("--no-such-option", "--exec=sometimes", "--type=processes", "--pool-full=maybe",
                   "--exec=", "--exec=POOL", "--type=1", "--epoll-threads=many",
                   "--pool-threads=-1", "--pool-threads=1.5", "--pool-queue=", "--pool-queue=10k",
                   "--work-op-threads=two", "--handoff-us=4294967296", "--slow-threads= 1",
                   "--slow-threads=99999999999999999999", "--drain-ms=never"):
        name, _, value = option.partition("=")
        fails(bench, 2, listen=[], options=[option], words=[name.strip("-"), value])
    for option, name in (("--epoll-threads=100000", "epoll_threads"),
                         ("--pool-threads=10001", "pool_threads"),
                         ("--work-op-threads=10001", "work_op_threads")):
        fails(bench, 2, listen=[], options=[option], words=[name, option.partition("=")[2]])
    fails(bench, 2, listen=[], options=["--exec"], words=["exec"])
    fails(bench, 2, listen=[], options=["epoll"], words=["epoll"])


@test(only=("auto",))
async def the_environment_overrides_the_options(bench):
    two = ("--epoll-threads", "2")
    for name, value, options, chosen in (
            ("IOH_EPOLL_THREADS", "3", two, ("--epoll-threads", "3")),
            ("IOH_EXEC", "inline", two, (*two, "--exec", "inline")),
            ("IOH_EXEC", "pool", (*two, "--exec", "inline"), (*two, "--exec", "pool")),
            ("IOH_EXEC", "auto", (*two, "--exec", "inline"), two),
            ("IOH_EXEC", "affine", two, (*two, "--exec", "affine")),
            ("IOH_TYPE", "threads", (*two, "--exec", "pool"), ("--type", "threads")),
            ("IOH_TYPE", "epoll", (*two, "--type", "threads"), two),
            ("IOH_POOL_THREADS", "5", (*two, "--pool-threads", "3"), (*two, "--pool-threads", "5")),
            ("IOH_WORK_OP_THREADS", "3", two, (*two, "--work-op-threads", "3"))):
        await check_threads(bench, chosen, options, {name: value})
    await check_threads(bench, (*two, "--exec", "pool", "--pool-threads", "4"), (),
                        {"IOH_EPOLL_THREADS": "2", "IOH_EXEC": "pool", "IOH_POOL_THREADS": "4",
                         "IOH_POOL_QUEUE": "9", "IOH_TYPE": "epoll"})


@test(only=("auto",))
async def a_bad_environment_is_a_clear_error(bench):
    for name in ("IOH_EPOLL_THREADS", "IOH_WORK_OP_THREADS", "IOH_POOL_THREADS", "IOH_POOL_QUEUE"):
        for value in ("many", "", "-1", "1.5", " 2", "2 ", "0x10", "4294967296",
                      "99999999999999999999999", "+1"):
            fails(bench, 2, listen=[], environment={name: value}, words=["%s=%s" % (name, value)])
    for name in ("IOH_TYPE", "IOH_EXEC"):
        for value in ("nonsense", "", "0", "Epoll", "auto ", "pool,inline", "x" * 5000):
            fails(bench, 2, listen=[], environment={name: value}, words=["%s=" % name, value[:60]])
    for name, option in (("IOH_EPOLL_THREADS", "epoll_threads"),
                         ("IOH_POOL_THREADS", "pool_threads"),
                         ("IOH_WORK_OP_THREADS", "work_op_threads")):
        fails(bench, 2, listen=[], environment={name: "70000"}, words=[option, "70000"])


@test(only=("auto",))
async def the_queue_of_the_environment_is_used(bench):
    """One thread, one place: of a burst some are refused, which needs no measuring."""
    with bench.demo("--exec", "pool", environment={"IOH_POOL_THREADS": "1",
                                                   "IOH_POOL_QUEUE": "1"}) as demo:
        until = bench.until()
        async with connections(demo.tcp, 10) as conns:
            for conn in conns:
                await conn.send(b"GET /slow?ms=300 HTTP/1.1\r\nHost: a\r\n\r\n", until)
            seen = set()
            for conn in conns:
                await conn.need(12, until, "an answer")
                seen.add(bytes(conn.data[9:12]))
            equal(seen, {b"200", b"503"}, "statuses")
