"""Coverage-guided fuzzing of the readers (`make fuzz`): any exception but `SalcliError` is a finding.

    python -m tests.fuzz.fuzz_readers [--seconds N] [--crashes FOLDER] [READER…]

Each reader runs in a process of its own, from seeds built in code. What it finds is kept in the folder of crashes:
make it a test, then mend it.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

READERS = ("text", "binary", "npy", "npz", "labels", "similarity", "artifact")
READERS += ("safetensors", "int8", "int8-npy", "fbin", "fvecs", "fasttext")
MAX_BYTES = 8192


def seeds_of(reader: str) -> list[bytes]:
    """Give small valid files of a reader's kind."""
    from . import seeds as s

    keyed = [s.npy(s.X), s.npy(s.np.array(s.KEYS)), s.npy(s.np.arange(3))]
    return {
        "text": lambda: [*s.TEXT, *(pack(s.TEXT[0]) for pack in s.PACKERS)],
        "binary": lambda: list(s.BINARY),
        "npy": lambda: [s.npy(s.X), s.npy(s.X.T.astype(">f8"), (2, 0)), s.npy(s.X.astype("f2"), (3, 0))],
        "npz": lambda: [s.PART.join(keyed), s.zipped(zip(("x.npy", "keys.npy"), keyed, strict=False))],
        "safetensors": lambda: list(s.SAFETENSORS),
        "int8": lambda: [s.SAFETENSORS[-1]],
        "int8-npy": lambda: [s.npy(s.CODES)],
        "fbin": lambda: [s.FBIN + s.X.tobytes()],
        "fvecs": lambda: [s.FVECS],
        "fasttext": lambda: [s.fasttext()],
        "labels": lambda: list(s.LABELS),
        "similarity": lambda: list(s.SIMILARITY),
        "artifact": lambda: [_parted(s.artifact_members(which)) for which in range(3)],
    }[reader]()


def _parted(members: dict[str, bytes]) -> bytes:
    from .readers import ARTIFACT_MEMBERS, PART

    return PART.join(members.get(name, b"") for name in ARTIFACT_MEMBERS)


def fuzz_one(reader: str, arguments: list[str]) -> None:
    """Fuzz one reader in this process, until libFuzzer's limits."""
    import atheris

    with atheris.instrument_imports(include=["salcli"], enable_loader_override=False):
        from .readers import survive

    atheris.Setup([sys.argv[0], *arguments], lambda data: survive(reader, data) and None)
    atheris.Fuzz()


def main() -> int:
    """Fuzz each reader for a while.

    Returns
    -------
    1 if any reader let an error escape
    """
    parser = argparse.ArgumentParser(description="Fuzz the readers.")
    parser.add_argument("--seconds", type=int, default=60, help="for each reader")
    parser.add_argument("--crashes", type=Path, default=Path(".fuzz"), help="folder that keeps what was found")
    parser.add_argument("readers", nargs="*", choices=[*READERS, []], default=READERS)
    given = parser.parse_args()
    given.crashes.mkdir(exist_ok=True)
    failed = []
    for reader in given.readers:
        with tempfile.TemporaryDirectory() as corpus:
            for i, seed in enumerate(seeds_of(reader)):
                Path(corpus, str(i)).write_bytes(seed)
            print(f"--- {reader}: {given.seconds} s", flush=True)
            limits = [f"-max_total_time={given.seconds}", f"-max_len={MAX_BYTES}", "-timeout=20", "-rss_limit_mb=1500"]
            limits += [f"-artifact_prefix={given.crashes}/{reader}-", "-print_final_stats=1", "-verbosity=0"]
            command = [sys.executable, "-m", __spec__.name, "--one", reader, *limits, corpus]
            if subprocess.run(command, check=False).returncode:
                failed.append(reader)
    print(f"found something in: {', '.join(failed)} (see {given.crashes})" if failed else "nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz_one(sys.argv[2], sys.argv[3:])
    else:
        sys.exit(main())
