"""salcli in a process of its own that a warm parent forks: what a command imports is imported once for all tests.

The child has arguments, working directory, environment and pipes as a new process has; only the interpreter and the
modules are there already. Tests of starting, of the locale, of limits and of variables that Python or numpy read when
they start run new processes (`tests/cli/helpers.py::run` with `command` or `env`).
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

SECONDS = 300
SERVER = f"""
import atexit, gc, json, os, select, signal, socket, sys
import salcli.__main__
import salcli.api, salcli.cli.app, salcli.cli.console, salcli.evaluation.measures, salcli.formats.hdf5
import salcli.commands.apply, salcli.commands.compare, salcli.commands.evaluate, salcli.commands.export
import salcli.commands.fit, salcli.commands.inspect, salcli.commands.label, salcli.commands.label_counts
import salcli.commands.moments
import blake3, matplotlib.backends.backend_svg, matplotlib.figure, orjson, pyarrow.csv, pyarrow.parquet
import scipy.optimize, scipy.sparse, scipy.stats, sklearn.ensemble, sklearn.linear_model
import sklearn.metrics.pairwise, sklearn.neighbors, sklearn.neural_network, sklearn.svm, threadpoolctl

def run(connection):
    request, fds, *_ = socket.recv_fds(connection, 1 << 20, 3)
    child = os.fork()
    if child:
        _, status, usage = os.wait4(child, 0)
        connection.sendall(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10]).encode())
        os._exit(0)
    connection.close()
    server.close()
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
        name = ("stdin", "stdout", "stderr")[number]
        how = dict(encoding=getattr(sys, name).encoding, errors=getattr(sys, name).errors, closefd=False)
        setattr(sys, name, open(number, "w" if number else "r", buffering=1 if number == 2 else -1, **how))
    script, arguments, folder, variables, before = json.loads(request)
    os.chdir(folder)
    os.environ.update(variables)
    sys.argv[:] = [script or salcli.__main__.__file__, *arguments]
    if not script:
        sys.modules["__main__"] = salcli.__main__  # so that messages name the program as `python -m salcli`
    signal.alarm({SECONDS})
    exec(before, {{}})
    try:
        salcli.__main__.main()
    except SystemExit as done:
        sys.stdout.flush()
        atexit._run_exitfuncs()
        if isinstance(done.code, int) or done.code is None:
            os._exit(done.code or 0)  # tearing down all that was imported takes longer than many a command
        raise

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
gc.collect()
gc.freeze()
print(flush=True)
while True:
    if 0 in select.select([server, 0], [], [])[0]:
        sys.exit()  # whoever started this has ended
    connection, _ = server.accept()
    if not os.fork():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run(connection)
    connection.close()
"""
CLIENT = """#!{python} -SE
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({path!r})
    request = json.dumps([sys.argv[0], sys.argv[1:], os.getcwd(), dict(os.environ), ""])
    socket.send_fds(connection, [request.encode()], [0, 1, 2])
    code, _ = json.loads(connection.makefile("rb").read())
sys.exit(code if code >= 0 else 128 - code)
"""


class Warm:
    """A parent of commands, which ends with this process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = str(Path(self._folder.name) / "socket")
        self.environment = environment()
        command = [sys.executable, "-c", SERVER, self._path]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        self._server.stdout.readline()
        atexit.register(self.close)

    def close(self) -> None:
        """End the parent."""
        self._server.kill()
        self._server.wait()
        self._folder.cleanup()

    def client(self, folder: Path) -> Path:
        """Write `salcli` into a folder, a command for shells that runs as `run` does; return its path."""
        path = folder / "salcli"
        path.write_text(CLIENT.format(python=sys.executable, path=self._path), "utf-8")
        path.chmod(0o755)
        return path

    def run(self, *args: object, cwd: Path, before: str = "") -> tuple[int, bytes, bytes, int]:
        """Return exit code, stdout, stderr and the most memory in bytes of a command, after the code `before`."""
        request = json.dumps([None, [*map(str, args)], str(cwd), {}, before]).encode("utf-8")
        reads, writes = zip(os.pipe(), os.pipe(), strict=True)
        texts = [b"", b""]

        def collect(i: int) -> None:
            with open(reads[i], "rb") as pipe:
                texts[i] = pipe.read()

        readers = [threading.Thread(target=collect, args=(i,)) for i in range(2)]
        with socket.socket(socket.AF_UNIX) as connection, open(os.devnull, "rb") as nothing:
            connection.connect(self._path)
            socket.send_fds(connection, [request], [nothing.fileno(), *writes])
            for fd in writes:
                os.close(fd)
            for reader in readers:
                reader.start()
            code, peak = json.loads(connection.makefile("rb").read())
        for reader in readers:
            reader.join()
        return code, texts[0], texts[1], peak


def environment() -> dict[str, str]:
    """Return the variables of this process, but for those of pytest."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


@cache
def warm() -> Warm:
    """Return this process's parent of commands, which is started when it is first needed."""
    return Warm()
