"""The servers that others wrote, for comparison: nginx and programs for libh2o, libmicrohttpd and libwebsockets (peer_*.c).
Debian's packages of them are fetched by prepare(); nginx is only unpacked, so that no service starts."""
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

from processes import START_S, Process, Server, Unable

LIBRARIES = ("libmicrohttpd-dev", "libh2o-evloop-dev", "libwebsockets-dev", "libhttp-parser-dev", "apache2-utils",
             "pkg-config")
SPARE_CONNECTIONS = 200


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          **options)
    if done.returncode:
        raise Unable(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def installed(package):
    done = subprocess.run(("dpkg-query", "-W", "-f=${db:Status-Status}", package), capture_output=True,
                          text=True, check=False)
    return done.stdout == "installed"


def prepare(folder):
    """Installs what the peers need, and unpacks nginx into folder/peers."""
    missing = [package for package in LIBRARIES if not installed(package)]
    root = () if os.geteuid() == 0 else ("sudo",)
    if missing:
        print("installing", *missing, flush=True)
        run(*root, "apt-get", "-q", "update")
        run(*root, "apt-get", "-q", "install", "-y", "--no-install-recommends", *missing)
    if nginx_binary(folder).exists():
        return
    into = folder / "peers"
    into.mkdir(parents=True, exist_ok=True)
    run("apt-get", "-q", "download", "nginx", cwd=into)
    for package in into.glob("nginx_*.deb"):
        run("dpkg-deb", "-x", package, into / "root")


def nginx_binary(folder):
    return folder / "peers" / "root" / "usr" / "sbin" / "nginx"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


NGINX = """
worker_processes 1; daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log crit;
events {{ worker_connections {connections}; }}
http {{
    access_log off; sendfile on; keepalive_requests 1000000000; keepalive_timeout 3600; types {{ }}
    default_type application/octet-stream;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location /ping {{ default_type text/plain; return 200 "pong"; }}
        location /files/ {{ alias {files}/; }}
    }}
}}
"""


class Nginx(Process):
    """One worker, without a master; serves /ping and the folder under /files/."""

    def __init__(self, cores, build, files="/nonexistent"):
        self.folder = tempfile.mkdtemp(prefix="bench-nginx-")
        self.port = free_port()
        config = pathlib.Path(self.folder, "nginx.conf")
        config.write_text(NGINX.format(folder=self.folder, port=self.port, files=files, connections=12000 +
                                       SPARE_CONNECTIONS), encoding="utf-8")
        super().__init__(cores, nginx_binary(build), "-p", self.folder, "-c", config, "-e", "stderr")
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.child.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.stop()
        raise Unable("nginx did not start")

    def stop(self):
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(name, cores, build, files=None):
    """The peer of that name as a running process with a port."""
    if name == "nginx":
        return Nginx(cores, build, files or "/nonexistent")
    binary = build / "bench" / f"peer_{name}"
    if not binary.exists():
        raise Unable(f"there is no {binary}: run with --peers and without --no-build")
    return Server(cores, binary, 0)


# By group of the bench: who does the same work.
OF_GROUP = {"http": ("nginx", "h2o", "mhd"), "ws": ("lws",)}
