#!/usr/bin/env python3
"""The shared library exports what the public headers mark IOH_API, and nothing else.

public_api.py LIBIOHANDLER.SO
"""
import pathlib
import re
import subprocess
import sys

# What compilers, linkers and sanitizers add on their own.
TOOLS = re.compile(r"^(__|_init$|_fini$|_edata$|_end$|_ITM_|\.)")


def declared(text):
    """The functions marked IOH_API, and the ioh_ functions declared without it."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
    text = text.replace('extern "C" {', "")
    marked = set()
    unmarked = set()
    # Bodies of structs and initialisers hold no functions of ours; what remains are statements.
    for statement in re.split(r";|\{[^{}]*\}", text):
        match = re.search(r"\b(ioh_\w+)\s*\(", statement)
        if not match or "typedef" in statement:
            continue
        (marked if re.search(r"\bIOH_API\b", statement) else unmarked).add(match.group(1))
    return marked, unmarked


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", library],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    names = {line.split()[0].split("@")[0] for line in lines}
    return {name for name in names if not TOOLS.match(name)}


def check(what, names):
    """One line; False when there are names, which are those that should not be."""
    print("FAIL" if names else "ok  ", what, *sorted(names))
    return not names


def main():
    marked, unmarked = declared(
        '#ifdef __cplusplus\nextern "C" {\n#endif\nIOH_API int *ioh_a(void);\nint ioh_b(int x);\n'
        "struct s { void (*ioh_c)(int); };\n#define ioh_d(x) \\\n (x)\n/* ioh_e() */\n}\n")
    results = [check("headers are read as they should be",
                     marked ^ {"ioh_a"} | unmarked ^ {"ioh_b"})]

    headers = pathlib.Path(__file__).resolve().parents[2] / "include" / "iohandler"
    marked = set()
    unmarked = set()
    for header in sorted(headers.glob("*.h")):
        some, others = declared(header.read_text())
        marked |= some
        unmarked |= others
    found = exported(sys.argv[1])
    results += [
        check("there are public functions", set() if marked else {"(none)"}),
        check("every function in a public header is marked IOH_API", unmarked),
        check("every public function is exported", marked - found),
        check("nothing else is exported", found - marked),
    ]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    sys.exit(0 if all(results) else 1)


main()
