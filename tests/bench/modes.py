"""The groups that compare ways to run callbacks: hol, cost, slow-reader and spread. README.md says what they
mean. Each function gets the Bench of ./run."""
import contextlib
import statistics
import time

SPARE_S = 40  # for a line of a load tool, beside the measured time
SETTLE_S = 0.3  # between the beginning of what goes on beside and the measured time

SLOW_CLIENTS = 8

INLINE = ("--exec", "inline")
AUTO = ("--exec", "auto")
AFFINE = ("--exec", "affine", "--work-op-threads", "8")
THREADS = ("--type", "threads")

# The pool has a thread for each slow client and as many again: with fewer, the slow ones occupy it.
HOL_MODES = {
    "inline": INLINE,
    "auto": AUTO,
    "auto, slow pool": AUTO + ("--slow-threads", str(SLOW_CLIENTS)),
    "pool": ("--exec", "pool", "--pool-threads", str(2 * SLOW_CLIENTS)),
    "auto, nice": AUTO + ("--pool-nice", "20"),
    "pool, nice": ("--exec", "pool", "--slow-threads", str(SLOW_CLIENTS), "--pool-nice", "20"),
    "affine": AFFINE,
    "threads": THREADS,
}
HOL_AIMS = {"auto": 2.0, "auto, slow pool": 2.0, "auto, nice": 2.0, "pool": 1.2, "pool, nice": 1.2}
HOL_MOST_MS = 20
HOL_PATHS = ("/slow?ms=200", "/burn?ms=5")

COST_MODES = {
    "inline": INLINE,
    "auto": AUTO,
    "pool": ("--exec", "pool"),
    "affine": AFFINE,
    "threads": THREADS,
}
COST_AIMS = {"auto": 0.95, "pool": 0.65, "affine": 0.65}
COST_CASES = (
    ("http /ping c=64", "http", ("64",), ("1",)),
    ("http /ping c=100", "http", ("100",), ("1",)),
    ("ws 64 B text c=64", "ws", ("/echo", "64"), ("1", "64")),
)

READER_MODES = {"inline": INLINE, "auto": AUTO, "pool": ("--exec", "pool"), "affine": AFFINE}
READER_AIM = 1.2
READERS = 100
READER_PATH = "/stream?bytes=1000000000"
READER_CASE = ("ws 64 B text c=100", "ws", ("/echo", "100"), ("1", "64"))
SEND_HIGH = 262144  # options.send_high, as the demo has it

SPREAD_AIM = 1.1
SPREAD_LOOPS = (2, 4)


def median(values):
    return statistics.median(values)


def quartiles(values):
    """Where the middle half of the rounds lies; few rounds: all of them."""
    values = sorted(values)
    cut = len(values) // 4
    return values[cut], values[len(values) - 1 - cut]


def spread_of(values):
    return "{:.2f}-{:.2f}".format(*quartiles(values))


def against(values, aim, at_most):
    """An aim, and whether the rounds meet it: unclear when it lies within their middle half."""
    if aim is None:
        return ""
    low, high = quartiles(values)
    if high <= aim if at_most else low >= aim:
        verdict = "met"
    else:
        verdict = "MISSED" if (low > aim if at_most else high < aim) else "unclear"
    return f"{'<=' if at_most else '>='} {aim:g} {verdict}"


def measure(bench, demo, case, beside=()):
    """The figures of one run, with `beside` (a load tool's word and arguments) going on; None after a fault.
    Whatever goes on beside begins when the measured connections are open: an inline server that sleeps
    would be opened to for minutes. The answers that went on beside, a second, come as "beside"."""
    name, group, before, after = case
    name = f"{name} beside {beside[1]}" if beside else name
    seconds = bench.args.seconds
    with contextlib.ExitStack() as stack:
        tool = stack.enter_context(bench.tool("-w", "-p", demo.pid, group, demo.port, *before, seconds,
                                              *after))
        if not tool.number("open ", SPARE_S):
            return bench.fault(f"{name}: the connections could not be opened")
        other, begun = None, time.monotonic()
        if beside:
            word, path, conns = beside
            other = stack.enter_context(bench.tool(word, demo.port, path, conns))
            if other.number("open ", SPARE_S) != conns:
                return bench.fault(f"{name}: {word} {path} could not be opened")
            time.sleep(SETTLE_S)
        tool.say("go\n")
        figures = bench.figures(name, tool)
        if figures:
            figures["anon"] = demo.anon_bytes()
            if figures["answers"] == 0:  # each took longer than was measured
                for key in ("p50_us", "p99_us", "max_us"):
                    figures[key] = 1e6 * seconds
        if other:
            other.end_input()
            count = other.number("answers " if beside[0] == "loop" else "still open ", SPARE_S)
            if other.wait(5) != 0:
                return bench.fault(f"{name}: {beside[0]} {beside[1]} failed, {count} left of it")
            if figures:
                figures["beside"] = count / (time.monotonic() - begun)
        return figures


def in_turn(bench, modes, measure_one):
    """Every mode's result in every round, {mode: [results]}; rounds with a fault in any are left out. The
    first of a round is another each time, so that a drift of the machine favours nobody."""
    names, rounds = list(modes), []
    for turn in range(bench.args.rounds):
        first = turn % len(names)
        order = names[first:] + names[:first]
        got = {name: measure_one(name) for name in (order if turn % 2 == 0 else order[::-1])}
        if all(got.values()):
            rounds.append(got)
    if len(rounds) < bench.args.rounds:
        print(f"{len(rounds)} of {bench.args.rounds} rounds count in what follows", flush=True)
    return {name: [got[name] for got in rounds] for name in names} if rounds else {}


def start_all(bench, stack, modes):
    return {name: stack.enter_context(bench.start_demo(mode)) for name, mode in modes.items()}


# ---- hol

def hol_figures(bench, name, demo, conns):
    """Alone and beside each path; None when one of them failed."""
    case = (f"hol {name} /ping c={conns}", "http", (str(conns),), ("1",))
    got = {"": measure(bench, demo, case)}
    for path in HOL_PATHS:
        got[path] = measure(bench, demo, case, ("loop", path, SLOW_CLIENTS))
    return got if all(got.values()) else None


def hol(bench):
    print(f"\nhol: GET /ping beside {SLOW_CLIENTS} clients looping on a slow path; times in ms; ratio: p99 "
          "beside / alone within a round")
    print(f"{'c':>4} {'mode':<16} {'beside':<13} {'/ping/s':>8} {'p50':>8} {'p99':>8} {'max':>8} "
          f"{'p99 ratio':>9} {'(spread)':<14} {'slow/s':>6}  aim", flush=True)
    with contextlib.ExitStack() as stack:
        demos = start_all(bench, stack, HOL_MODES)
        for conns in (4, 100):
            results = in_turn(bench, HOL_MODES,
                              lambda name, n=conns: hol_figures(bench, name, demos[name], n))
            for name, rounds in results.items():
                for path in ("",) + HOL_PATHS:
                    print(hol_row(conns, name, path, rounds), flush=True)
        for name, demo in demos.items():
            bench.check_demo(f"hol {name}", demo)


def hol_row(conns, name, path, rounds):
    def middle(key):
        return median([r[path][key] for r in rounds])

    more = ">" if middle("answers") == 0 else " "  # than the measured time
    row = (f"{conns:>4} {name:<16} {path or 'nothing':<13} {middle('rate'):>8.0f}{more}"
           f"{middle('p50_us') / 1e3:>8.3f} {middle('p99_us') / 1e3:>8.3f} "
           f"{middle('max_us') / 1e3:>8.2f}")
    if not path:
        return row
    ratios = [r[path]["p99_us"] / r[""]["p99_us"] for r in rounds]
    row += f" {median(ratios):>9.2f} ({spread_of(ratios) + ')':<13} {middle('beside'):>6.0f}"
    if name not in HOL_AIMS:
        return row
    worst = max(r[path]["p99_us"] for r in rounds) / 1e3
    return (f"{row}  {against(ratios, HOL_AIMS[name], True)}; highest p99 {worst:.2f} "
            f"{against([worst], HOL_MOST_MS, True)}")


# ---- cost

def cost_figures(bench, name, demo, case):
    got = measure(bench, demo, (f"{case[0]} {name}",) + case[1:])
    return got if got and bench.answered(f"{case[0]} {name}", got) else None


def cost(bench):
    print("\ncost: ratios to inline within a round; CPU is the server's, in µs for each answer")
    print(f"{'case':<18} {'mode':<8} {'rate/s':>8} {'ratio':>6} {'(spread)':<12} {'CPU':>6} {'ratio':>6} "
          f"{'(spread)':<12} {'p50 µs':>7} {'p99 µs':>7}  aim of the rate", flush=True)
    with contextlib.ExitStack() as stack:
        demos = start_all(bench, stack, COST_MODES)
        for case in COST_CASES:
            results = in_turn(bench, COST_MODES,
                              lambda name, c=case: cost_figures(bench, name, demos[name], c))
            for name, rounds in results.items():
                print(cost_row(case[0], name, rounds, results["inline"]), flush=True)
        for name, demo in demos.items():
            bench.check_demo(f"cost {name}", demo)


def cost_row(case, name, rounds, inline):
    rate = [r["rate"] / i["rate"] for r, i in zip(rounds, inline)]
    cpu = [i["server_cpu_us"] / r["server_cpu_us"] for r, i in zip(rounds, inline)]
    row = (f"{case:<18} {name:<8} {median(r['rate'] for r in rounds):>8.0f} {median(rate):>6.3f} "
           f"({spread_of(rate) + ')':<11} {median(r['server_cpu_us'] for r in rounds):>6.2f} "
           f"{median(cpu):>6.3f} ({spread_of(cpu) + ')':<11} "
           f"{median(r['p50_us'] for r in rounds):>7.0f} {median(r['p99_us'] for r in rounds):>7.0f}")
    return f"{row}  {against(rate, COST_AIMS.get(name), False)}".rstrip()


# ---- slow-reader

def reader_figures(bench, name, demo):
    case = (f"{READER_CASE[0]} {name}",) + READER_CASE[1:]
    alone = measure(bench, demo, case)
    beside = measure(bench, demo, case, ("deaf", READER_PATH, READERS))
    return {"alone": alone, "beside": beside} if alone and beside else None


def slow_reader(bench):
    print(f"\nslow-reader: 100 echoing WebSockets beside {READERS} that ask for {READER_PATH} and never read; "
          f"bytes: RssAnon with them less RssAnon before, for each (send_high: {SEND_HIGH})")
    print(f"{'mode':<8} {'rate alone':>10} {'beside':>8} {'p99 alone':>10} {'beside':>8} {'ratio':>6} "
          f"{'(spread)':<12} {'bytes':>8}  aim", flush=True)
    with contextlib.ExitStack() as stack:
        demos = start_all(bench, stack, READER_MODES)
        results = in_turn(bench, READER_MODES, lambda name: reader_figures(bench, name, demos[name]))
        for name, rounds in results.items():
            print(reader_row(name, rounds), flush=True)
        for name, demo in demos.items():
            bench.check_demo(f"slow-reader {name}", demo)


def reader_row(name, rounds):
    def middle(which, key):
        return median(r[which][key] for r in rounds)

    ratios = [r["beside"]["p99_us"] / r["alone"]["p99_us"] for r in rounds]
    # The first round's: later ones find the memory that it left.
    held = (rounds[0]["beside"]["anon"] - rounds[0]["alone"]["anon"]) / READERS
    return (f"{name:<8} {middle('alone', 'rate'):>10.0f} {middle('beside', 'rate'):>8.0f} "
            f"{middle('alone', 'p99_us'):>10.0f} {middle('beside', 'p99_us'):>8.0f} "
            f"{median(ratios):>6.2f} ({spread_of(ratios) + ')':<11} {held:>8.0f}  "
            f"{against(ratios, READER_AIM, True)}")


# ---- spread

def spread(bench):
    want = bench.affordable(bench.args.conns)
    print(f"\nspread: {want} WebSockets over several loops; ratio: fullest / emptiest")
    for loops in SPREAD_LOOPS:
        with bench.start_demo(AUTO, loops) as demo:
            with bench.tool("ws-idle", demo.port, "/echo", want) as hold:
                opened = hold.number("open ", SPARE_S + want / 500)
                counts = demo.stats()["loop_connections"]
                hold.end_input()
                hold.number("still open ", SPARE_S)
            if opened != want or len(counts) != loops or min(counts) == 0:
                bench.fault(f"spread: {opened} of {want} open, over {counts}")
                continue
            ratio = max(counts) / min(counts)
            print(f"  {loops} loops  {' '.join(map(str, counts))}  ratio {ratio:.3f}  "
                  f"{against([ratio], SPREAD_AIM, True)}", flush=True)
            bench.check_demo("spread", demo)
