"""List the names that are PyTorch's, Python's and known libraries', for redaction to let stay.

    python tools/known_names.py --torch FOLDER... --python LIBRARY... --packages FOLDER|WHEEL...
    python tools/known_names.py --only functions --torch FOLDER... --packages FOLDER|WHEEL...

Writes ``snapreport/names/known_names.txt.xz``. ``FOLDER`` of ``--torch`` is the ``torch`` of a
wheel with CUDA that was unpacked, and of others besides; ``--python`` takes files such as
``lib/libpython3.12.so.1.0``, with their symbols; ``--packages`` what else is installed or
downloaded, and Python's own modules. With ``--only`` the other lists stay as they are. It needs
``nm`` and ``c++filt``.
"""

from __future__ import annotations

import argparse
import lzma
import re
import subprocess
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from snapreport.names.public_names import known_names
from snapreport.roles.frames import LIBRARIES

TARGET = Path(__file__).parents[2] / "snapreport" / "names" / "known_names.txt.xz"
WORD = re.compile(r"[A-Za-z_]\w*")
# Of what else is linked into PyTorch's libraries, no stack of an allocation has a name.
OURS = re.compile(
    r"\b(at|c10|c10d|torch|std|pybind11|functorch|caffe2|cudnn_frontend|gloo)::|TH[CP]"
)
CODE = "tTwWiuV"
SHORTEST = 3
"""Shorter words tell nothing, and are let through without a list."""
TIMED = re.compile(r"dynamo_timed\(\s*f?\"([\w.<>]+)\"|dynamo_timed\(\s*\n\s*\"([\w.<>]+)\"")
FUNCTION = re.compile(rb"^[ \t]*(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
TESTS = re.compile(r"(^|/)(tests?|testing|idlelib|lib2to3)/|(^|/)test_")  # in nobody's call stacks
CUDA_FILE = re.compile(r"tmpxft_\w+-\d+_(\w+)\.")

# What PyTorch's Python code calls stages otherwise than by a text in place.
TIMED_OLDER = ("TritonBundler.collect", "pad_mm_benchmark", "TritonBundler.read_and_emit")

# What older versions of PyTorch have in stacks, and what is in no library's symbols.
OLDER = """
Dimname DimnameList THPVariable_subclass_clear THPVariable_subclass_dealloc char_t deleteNode
common_checks_baddbmm_bmm convert_boolean_attn_mask_ resize_impl_cuda_ _empty_strided_generic
default_error_condition scalar_to_tensor IntrusivePtrNoGilDestructor error_code
RegisterCUDA.cpp RegisterCPU.cpp RegisterCompositeImplicitAutograd.cpp guards.cpp
RegisterCompositeExplicitAutograd.cpp RegisterCompositeExplicitAutogradNonFunctional.cpp
CUDAMallocAsyncAllocator.cpp memory_snapshot.cpp eval_frame.c thread48.o thread.cc
"""
SYSTEM = """
start_thread clone clone3 __clone __clone3 _start main __libc_start_main __libc_start_call_main
__libc_start_main_impl __libc_start_main@@GLIBC_2.34 pthread_create __pthread_create start_wqthread
execute_native_thread_routine xmknodat __xmknodat __libc_init_first pthread_condattr_setpshared
pyrun_file pymain_run_file_obj pymain_run_file pymain_main _PyEval_EvalFrame do_call_core
do_richcompare builtin_exec_impl task_step_impl delitem_knownhash_lock_held _Py_DECREF
PyInit__asyncio dynamo_eval_custom_code_impl pthread_create.c clone3.S clone.S
libc_start_call_main.h libc-start.c generated_cases.c.h bytecodes.c ceval_macros.h
"""
BUILDS = """
usr local src conda croot opt conda-bld build build-static work csu nptl misc sysdeps unix sysv
linux x86_64 aarch64 Python Objects Modules Include internal cpython Parser Programs python glibc
gcc gcc-compiler python-split libstdc++-v3 c++11 pytorch aten ATen native cuda c10 core torch csrc
autograd cpu impl generated util functions jit runtime profiler debug
"""


def main() -> None:
    """Write the lists."""
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--torch", nargs="+", type=Path, required=True)
    given.add_argument("--python", nargs="+", type=Path, default=[])
    given.add_argument("--packages", nargs="+", type=Path, required=True)
    given.add_argument("--only", choices=["functions"])
    options = given.parse_args()
    functions = {
        name for package in (*options.torch, *options.packages) for name in defined(package)
    }
    if options.only:
        write({name: set(kept) for name, kept in known_names().lists.items()}, functions)
        return
    if not options.python:
        given.error("--python is needed for the lists of C and C++")
    cpp: set[str] = set(OLDER.split())
    plain: set[str] = set(SYSTEM.split())
    sources = {name for name in cpp | plain if "." in name}
    stages: set[str] = set(TIMED_OLDER)
    for folder in options.torch:
        for library in sorted(folder.glob("lib/lib*.so")):
            for kind, name, demangled in symbols(library):
                if kind == "a":
                    sources |= source_names(name)
                elif OURS.search(demangled):
                    cpp.update(WORD.findall(demangled))
                elif demangled == name and library.stem in ("libtorch_python", "libc10"):
                    plain.add(bare(name))
        for path in folder.rglob("*.py"):
            text = path.read_text("utf-8", "replace")
            stages.update(filter(None, (word for found in TIMED.findall(text) for word in found)))
    for library in options.python:
        for kind, name, demangled in symbols(library):
            if kind == "a":
                sources |= source_names(name)
            elif demangled == name:
                plain.add(bare(name))
    for path in options.python[0].parent.parent.glob("include/**/*.h"):
        sources.add(path.name)
    files: set[str] = set()
    for package in [*options.torch, *options.packages]:
        files.update(*map(parts, modules(package)))
    lists = {
        "cpp": cpp - {name for name in cpp if "." in name},
        "c": plain - {name for name in plain if "." in name},
        "files": files,
        "folders": set(BUILDS.split()),
        "sources": sources,
        "stages": stages,
    }
    write(lists, functions)


def write(lists: dict[str, set[str]], functions: set[str]) -> None:
    """Write the lists, with that of functions."""
    lists["functions"] = functions
    text = "".join(
        f"[{name}]\n" + "".join(f"{word}\n" for word in sorted(words) if len(word) >= SHORTEST)
        for name, words in lists.items()
    )
    packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
    TARGET.write_bytes(packed)
    for name, words in lists.items():
        print(f"{name:8} {len(words):>7,}")
    print(f"{len(packed):,} bytes")


def symbols(library: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the kind of each symbol of functions and files, its name, and that without mangling."""
    listed = subprocess.run(["nm", "-a", library], capture_output=True, text=True, check=True)
    rows = {tuple(line.split(maxsplit=2)[-2:]) for line in listed.stdout.splitlines()}
    chosen = [row for row in sorted(rows) if len(row) == 2 and row[0] in "a" + CODE]
    names = "\n".join(name for _, name in chosen)
    plain = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, check=True)
    for (kind, name), demangled in zip(chosen, plain.stdout.splitlines(), strict=True):
        yield kind, name.split("@")[0], demangled.split("@")[0]


def bare(name: str) -> str:
    """Return a C function's name without what the compiler put behind it."""
    return name.split(".")[0]


def source_names(symbol: str) -> set[str]:
    """Return a source file's name, of CUDA that of the file that was compiled."""
    cuda = CUDA_FILE.match(symbol)
    if cuda is not None:
        return {cuda[1]}
    known = re.fullmatch(r"[A-Za-z]\w*\.(c|cc|cpp|cu|h)", symbol)
    return {symbol} if known else set()


def defined(package: Path) -> Iterator[str]:
    """Yield the names of the functions that the modules of a package define."""
    if package.is_file():
        with zipfile.ZipFile(package) as archive:
            texts = [archive.read(name) for name in modules(package) if not TESTS.search(name)]
    else:
        inside = package if (package / "os.py").is_file() else package.parent
        names = (name for name in modules(package) if not TESTS.search(name))
        texts = [(inside / name).read_bytes() for name in names]
    for text in texts:
        yield from (found.decode() for found in FUNCTION.findall(text))


def modules(package: Path) -> Iterator[str]:
    """Yield the modules below a folder or in a wheel, as paths from a known library's on."""
    names: Iterable[str]
    if package.is_file():
        names = zipfile.ZipFile(package).namelist()
    else:
        names = (str(path.relative_to(package.parent)) for path in package.rglob("*.py"))
        if not package.name.isidentifier() or (package / "os.py").is_file():  # Python's own
            names = (name.partition("/")[2] for name in names)
    for name in names:
        first = name.split("/")[0]
        inside = first in LIBRARIES or package.is_dir()
        if name.endswith(".py") and inside and "/tests/" not in name and "-packages" not in name:
            yield name


def parts(name: str) -> set[str]:
    """Return the folders of a module, and its name."""
    return set(name.removesuffix(".py").split("/"))


if __name__ == "__main__":
    main()
