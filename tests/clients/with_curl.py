"""curl against the demo."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile

import site_files as site
from helpers import Wrong, equal, has, stream_hash

TESTS = []


def missing():
    return None if shutil.which("curl") else "curl is not installed (Debian: curl)"


def test(function):
    TESTS.append(function)
    return function


def curl(run, *args, data=None):
    """(standard output, standard error); a failed curl is Wrong."""
    done = subprocess.run(["curl", "-q", "-sS", "--noproxy", "*", "--max-time", "60", *args],
                          input=data, capture_output=True, timeout=90 * run.factor, check=False)
    log = done.stderr.decode(errors="replace")
    if done.returncode:
        raise Wrong("curl %s ended with %d: %s" % (" ".join(args), done.returncode, log[-600:]))
    return done.stdout, log


@test
def curl_gets_an_answer(run):
    out, log = curl(run, "-v", run.origin + "/ping")
    equal(out, b"pong", "body")
    has(log, "< HTTP/1.1 200 OK", "log")
    has(log, "left intact", "log")


@test
def curl_gets_the_page(run):
    out, _ = curl(run, "-f", run.origin + "/")
    has(out, b"</html>", "page")


@test
def curl_gets_a_head_without_a_body(run):
    out, _ = curl(run, "-I", run.origin + "/ping")
    has(out, b"HTTP/1.1 200 OK\r\n", "head")
    has(out.lower(), b"content-length: 4\r\n", "head")


@test
def curl_posts_and_gets_it_back(run):
    body = os.urandom(200000)
    out, _ = curl(run, "-f", "--data-binary", "@-", run.origin + "/", data=body)
    equal(hashlib.sha256(out).hexdigest(), hashlib.sha256(body).hexdigest(), "hash of the body")


@test
def curl_uploads_after_100_continue(run):
    """5 MB; curl waits for the 100 and says so if it does not come."""
    body = os.urandom(5000000)
    out, log = curl(run, "-v", "--expect100-timeout", "20", "-H", "Expect: 100-continue",
                    "-T", "-", "-H", "Content-Length: 5000000", "-H", "Transfer-Encoding:",
                    run.origin + "/upload", data=body)
    has(log, "< HTTP/1.1 100 Continue", "log")
    if "Done waiting for 100-continue" in log:
        raise Wrong("curl had to wait in vain for 100 Continue")
    equal(json.loads(out), {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()},
          "answer")


@test
def curl_uploads_a_file(run):
    body = os.urandom(5000000)
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        out, _ = curl(run, "-f", "-T", file.name, run.origin + "/upload")
    equal(json.loads(out)["sha256"], hashlib.sha256(body).hexdigest(), "hash")


@test
def curl_uploads_in_chunks(run):
    body = os.urandom(1234567)
    out, log = curl(run, "-v", "-H", "Transfer-Encoding: chunked", "-T", "-",
                    run.origin + "/upload", data=body)
    has(log, "> Transfer-Encoding: chunked", "log")
    equal(json.loads(out), {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()},
          "answer")


@test
def curl_is_not_asked_to_upload_to_nowhere(run):
    out, _ = curl(run, "--expect100-timeout", "20", "-H", "Expect: 100-continue",
                  "-o", os.devnull, "-w", "%{http_code} %{size_upload}",
                  "--data-binary", "@-", run.origin + "/nowhere", data=b"x" * 100000)
    equal(out, b"404 0", "status and bytes sent")


@test
def curl_uses_one_connection_for_many_requests(run):
    paths = ("/ping", "/stream?bytes=5", "/stream?bytes=5&chunked=1", "/missing", "/ping")
    out, log = curl(run, "-v", *(run.origin + path for path in paths))
    has(out, b"pong0123401234", "bodies")
    equal(log.count("Re-using existing connection"), 4, "connections used again")


@test
def curl_speaks_1_0(run):
    out, log = curl(run, "-v", "-0", run.origin + "/ping", run.origin + "/stream?bytes=9&chunked=1")
    equal(out, b"pong012345678", "bodies")
    equal(log.count("Re-using existing connection"), 0, "connections used again")


@test
def curl_speaks_1_0_with_keep_alive(run):
    out, log = curl(run, "-v", "-0", "-H", "Connection: keep-alive",
                    run.origin + "/ping", run.origin + "/ping")
    equal(out, b"pongpong", "bodies")
    equal(log.count("Re-using existing connection"), 1, "connections used again")


@test
def curl_reads_a_long_stream(run):
    for more in ("", "&chunked=1"):
        out, _ = curl(run, "-f", run.origin + "/stream?bytes=30000001" + more)
        equal(hashlib.sha256(out).hexdigest(), stream_hash(30000001), "hash of the stream" + more)


@test
def curl_reads_a_stream_slowly(run):
    out, _ = curl(run, "-f", "--limit-rate", "6M", run.origin + "/stream?bytes=9000000")
    equal(hashlib.sha256(out).hexdigest(), stream_hash(9000000), "hash of the stream")


@test
def curl_uses_the_unix_socket(run):
    out, _ = curl(run, "-f", "--unix-socket", run.demo.unix_path, "http://localhost/ping")
    equal(out, b"pong", "body")


@test
def curl_runs_fifty_requests_at_once(run):
    out, _ = curl(run, "-f", "-Z", "--parallel-max", "50",
                  run.origin + "/stream?bytes=100000&n=[1-50]")
    equal(len(out), 50 * 100000, "bytes")


@test
def curl_sends_cookies(run):
    out, _ = curl(run, "-f", "-b", "one=1; two=2", run.origin + "/cookie")
    equal(out.split(), [b"one=1", b"two=2"], "cookies")


@test
def curl_sends_a_form_with_files(run):
    with tempfile.TemporaryDirectory() as folder:
        contents = [b"", os.urandom(1000000), b"\r\n--" * 5000]
        args = ["-F", "a=1", "-F", 'q"uote=two words;type=text/plain']
        for i, content in enumerate(contents):
            path = os.path.join(folder, "file %d" % i)
            with open(path, "wb") as file:
                file.write(content)
            args += ["-F", "f=@" + path]
        out, _ = curl(run, "-f", *args, run.origin + "/form")
    fields = json.loads(out)["fields"]
    equal(fields[0], {"name": "a", "value": "1"}, "a field")
    has((('q"uote', "two words"), ("q%22uote", "two words")), (fields[1]["name"], fields[1]["value"]),
        "a quote in a name, as this curl escapes it")
    equal([(f["filename"], f["bytes"], f["sha256"]) for f in fields[2:]],
          [("file %d" % i, len(content), hashlib.sha256(content).hexdigest())
           for i, content in enumerate(contents)], "files")


@test
def curl_sends_pairs(run):
    for args in ((), ("-G",)):
        out, _ = curl(run, "-f", *args, "--data-urlencode", "a=x&y=z+%", "-d", "b=", "-d", "a=2",
                      run.origin + "/form")
        equal(json.loads(out)["fields"], [{"name": "a", "value": "x&y=z+%"}, {"name": "b", "value": ""},
                                          {"name": "a", "value": "2"}], "pairs")


@test
def curl_reads_compressed_answers(run):
    for more in ("", "&chunked=1"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out")
            out, _ = curl(run, "-f", "--compressed", "-o", path, "-w", "%{size_download}",
                          run.origin + "/stream?bytes=3000001" + more)
            with open(path, "rb") as file:
                equal(hashlib.sha256(file.read()).hexdigest(), stream_hash(3000001), "hash")
        if int(out) > 100000:
            raise Wrong("%s bytes came: not compressed" % out.decode())


@test
def curl_is_told_when_the_target_is_too_long(run):
    out, _ = curl(run, "-o", os.devnull, "-w", "%{http_code}", run.origin + "/" + "a" * 9000)
    equal(out, b"414", "status")


# ---- files

@test
def curl_resumes_a_download(run):
    whole = site.LARGE
    with tempfile.TemporaryDirectory(prefix="ioh-test-") as folder:
        path = os.path.join(folder, "large.bin")
        with open(path, "wb") as out:
            out.write(whole[:123457])
        _, log = curl(run, "-v", "-f", "-C", "-", "-o", path, run.origin + "/files/large.bin")
        has(log, "< HTTP/1.1 206 Partial Content", "log")
        with open(path, "rb") as done:
            equal(hashlib.sha256(done.read()).hexdigest(), hashlib.sha256(whole).hexdigest(), "hash")


@test
def curl_gets_parts_of_a_file(run):
    out, log = curl(run, "-v", "-r", "0-3,500-502", run.origin + "/files/digits.bin")
    has(log, "multipart/byteranges", "log")
    has(out, b"Content-Range: bytes 0-3/1000\r\n\r\n0123\r\n--", "first part")
    has(out, b"Content-Range: bytes 500-502/1000\r\n\r\n012\r\n--", "second part")


@test
def curl_asks_by_time_and_by_tag(run):
    with tempfile.TemporaryDirectory(prefix="ioh-test-") as folder:
        path, tag = os.path.join(folder, "hello.txt"), os.path.join(folder, "tag")
        url = run.origin + "/files/hello.txt"
        curl(run, "-f", "-R", "--etag-save", tag, "-o", path, url)
        equal(int(os.stat(path).st_mtime), site.TIME, "the time of the copy")
        for known in (("-z", path), ("--etag-compare", tag)):
            out, log = curl(run, "-v", *known, url)
            has(log, "< HTTP/1.1 304 Not Modified", "log")
            equal(out, b"", "body")


@test
def curl_takes_a_file_as_it_can_decode_it(run):
    _, log = curl(run, "-v", "-H", "Accept-Encoding: br, gzip", run.origin + "/files/app.js")
    has(log.lower(), "content-encoding: br", "log")
    with_dots, _ = curl(run, "--path-as-is", "-o", os.devnull, "-w", "%{http_code}",
                        run.origin + "/files/../../etc/passwd")
    equal(with_dots, b"404", "status")
