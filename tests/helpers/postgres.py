"""A PostgreSQL server of the tests' own: a new cluster in a temporary folder, on a free port, gone afterwards."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from glob import glob
from pathlib import Path

import psycopg

ADMIN, PASSWORD = "specscope_admin", "pä$s/w0rd:@%#?"  # every sign that a URL must escape
_START_S = 600.0


def programs():
    """The folder of initdb and postgres, of the newest version that is installed; None when there is none."""
    folders = [Path(f) for f in glob("/usr/lib/postgresql/*/bin")]
    folders.sort(key=lambda f: [int(n) if n.isdecimal() else 0 for n in f.parent.name.split(".")], reverse=True)
    if shutil.which("pg_config"):
        asked = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False, timeout=600)
        folders.append(Path(asked.stdout.strip()))
    if found := shutil.which("initdb"):
        folders.append(Path(found).resolve().parent)
    return next((f for f in folders if (f / "initdb").is_file() and (f / "postgres").is_file()), None)


class Server:
    """PostgreSQL refuses to run as root: then it runs as `postgres` (or `nobody`), in a folder that is that user's and
    lies outside pytest's own, which only root may enter. The name of the folder is short: a socket's path may have
    only about 100 bytes."""

    def __init__(self, bin_dir):
        self.bin, self.process, self.databases = bin_dir, None, 0
        self.folder = Path(tempfile.mkdtemp(prefix="specscope-pg-"))
        self.as_user = {}
        if os.geteuid() == 0:
            owner = _ordinary_user()
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
            self.as_user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        try:
            self._init()
            self._start()
        except BaseException:
            self.stop()
            raise

    def url(self, database, user=ADMIN, password=PASSWORD, scheme="postgresql"):
        from sqlalchemy import URL

        made = URL.create(scheme, user, password, "127.0.0.1", self.port, database)
        return made.render_as_string(hide_password=False)

    def new_database(self, options=""):
        """The name of an empty database."""
        self.databases += 1
        name = f"test_{self.databases}"
        self.run(f"CREATE DATABASE {name} {options}")
        return name

    def emptied(self, name, options=""):
        """A database by name, without any run store in it: quicker than a new one for each test."""
        if not self.run(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
            self.run(f"CREATE DATABASE {name} {options}")
        tables = self.run(r"SELECT tablename FROM pg_tables WHERE tablename LIKE 'specscope\_%'", database=name)
        if tables:
            self.run(f"DROP TABLE {', '.join(table for (table,) in tables)}", database=name)
        return name

    def run(self, *statements, database="postgres"):
        """What the last statement gives, as the administrator."""
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user=ADMIN, password=PASSWORD, dbname=database, autocommit=True
        ) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)  # at once: the data are thrown away, so no checkpoint
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _init(self):
        secret = self.folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        if self.as_user:
            os.chown(secret, self.as_user["user"], self.as_user["group"])
        self._call(
            "initdb", "--pgdata", self.folder / "data", "--username", ADMIN, "--pwfile", secret, "--no-sync",
            "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C",
        )  # fmt: skip

    def _start(self):
        for _ in range(5):  # another process may take the port between our look and the server's
            self.port = _free_port()
            settings = {
                "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder,
                "fsync": "off", "shared_buffers": "16MB", "max_connections": 50, "log_min_messages": "warning",
            }  # fmt: skip
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [self.bin / "postgres", "-D", self.folder / "data", *(f"--{k}={v}" for k, v in settings.items())],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, env=_plain_environment(),
                    **self.as_user,
                )  # fmt: skip
            if self._is_up():
                return
        raise RuntimeError(f"PostgreSQL did not start: {(self.folder / 'log').read_text(errors='replace')[-2000:]}")

    def _is_up(self):
        give_up = time.monotonic() + _START_S
        while self.process.poll() is None and time.monotonic() < give_up:
            try:
                self.run("SELECT 1")
                return True
            except psycopg.OperationalError:
                time.sleep(0.05)
        return False

    def _call(self, program, *arguments):
        done = subprocess.run(
            [self.bin / program, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=600, check=False,
            env=_plain_environment(), **self.as_user,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr[-2000:]}")


def _plain_environment():
    """Without PGDATA, PGPORT and the like, which would lead to another server; messages in English."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", "HOME": "/"}


def _ordinary_user():
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
