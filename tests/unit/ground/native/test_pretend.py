"""The tables of virtual functions that are copied, against headers and a C++ compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from snapreport.ground.errors import RecordingError
from snapreport.ground.native import pretend
from snapreport.ground.native.pretend import Pretended, slots_of

_HEADER = """
// struct Base { virtual void commented() const; };
struct API Base : Other {
  virtual ~Base() = default;
  /* virtual void gone(); */
  virtual bool first() const { if (true) { return false; } return nested(); }
  virtual Device
      second(const Thing& /*unused*/, [[maybe_unused]] int number = 0) const = 0;
  int plain() const;
#ifdef USE_ROCM
  virtual bool elsewhere() const;
#endif
  virtual const std::vector<std::string>& third() const { virtual_looking(); }
};
struct API Derived : Base {
  ~Derived() override = default;
  bool first() const override { return true; }
  virtual Device second(const Thing&, int) const { }
  virtual long fourth(int = -1) const { return 0; }
};
"""


def test_slots_are_in_the_order_of_declaration_with_two_for_the_destructor() -> None:
    assert slots_of(_HEADER, "Base") == ("~", "~", "first", "second", "third")


def test_a_derived_class_adds_only_what_is_new() -> None:
    base = slots_of(_HEADER, "Base")
    assert slots_of(_HEADER, "Derived", base) == (*base, "fourth")


def test_a_class_that_is_not_there_is_refused() -> None:
    with pytest.raises(RecordingError, match="no Missing"):
        slots_of(_HEADER, "Missing")


_PROGRAM = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <cstdio>
#include <cstring>
template <class F> long slot(F f) { long v; std::memcpy(&v, &f, sizeof v); return (v - 1) / 8; }
using G = c10::impl::DeviceGuardImplInterface;
using H = at::CUDAHooksInterface;
int main() {
%s
}
"""


@pytest.fixture
def torch_folder() -> Path:
    torch = pytest.importorskip("torch")
    return Path(torch.__file__).parent


def test_slots_are_those_of_the_compiler(torch_folder: Path, tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    headers = [
        (torch_folder / "include" / file).read_text("utf-8")
        for file, _ in (pretend._GUARD, pretend._BASE_HOOKS, pretend._CUDA_HOOKS)
    ]
    guard = slots_of(headers[0], "DeviceGuardImplInterface")
    hooks = slots_of(
        headers[2], "CUDAHooksInterface", slots_of(headers[1], "AcceleratorHooksInterface")
    )
    wanted = [("G", name) for name in pretend._GUARDED if name in guard]
    wanted += [("H", name) for name in pretend._HOOKED if name in hooks]
    assert len(wanted) > 30
    line = 'std::printf("{0} {1} %ld\\n", slot(&{0}::{1}));'
    lines = [line.format(kind, name) for kind, name in wanted]
    source, program = tmp_path / "slots.cpp", tmp_path / "slots"
    source.write_text(_PROGRAM % "\n".join(lines))
    # On arm64 the lowest bit of the other word says that it is virtual, not that of this one.
    libraries = torch_folder / "lib"
    done = subprocess.run(
        [compiler, "-std=c++20", "-O0", f"-I{torch_folder / 'include'}", str(source), "-o",
         str(program), f"-L{libraries}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{libraries}",
         "-Wl,--allow-shlib-undefined"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        kind, name, slot = line.split()
        assert (guard if kind == "G" else hooks)[int(slot)] == name


def test_devices_are_there_only_inside_and_the_guard_alone_stays(torch_folder: Path) -> None:
    import torch

    pretended = Pretended(torch_folder)
    before = pretended._registry[pretend._CUDA], pretended._hooks.value
    with pretended.there(3):
        assert pretended._registry[pretend._CUDA] != before[0]
        pretended.set_device(2)
        assert pretended.device() == 2
        pretended.set_device(0)
        pretended.set_stream(1, 7)
        assert (pretended.stream(0), pretended.stream(1)) == (0, 7)
        pretended.set_stream(1, 0)
    assert pretended._hooks.value == before[1]
    assert pretended._registry[pretend._CUDA]  # what is freed later may ask for it
    assert not torch.cuda.is_available()


def test_a_tensor_without_memory_has_its_address_and_tells_when_it_is_gone(
    torch_folder: Path,
) -> None:
    import torch

    pretended = Pretended(torch_folder)
    gone: list[int] = []
    with pretended.there(2):
        pretended.on_free(gone.append)
        try:
            capsule = pretended.capsule(0x7000_0000_1000, 1, (2, 32), 5, (2, 3), (3, 1))
            # As in a forecast, where torch.cuda.init() has nothing to do.
            lazy, torch.cuda._lazy_init = torch.cuda._lazy_init, lambda: None
            initialized, torch.cuda._initialized = torch.cuda._initialized, True
            try:
                tensor = torch._C._from_dlpack(capsule)
            finally:
                torch.cuda._lazy_init, torch.cuda._initialized = lazy, initialized
            assert (tensor.data_ptr(), tensor.shape) == (0x7000_0000_1000, (2, 3))
            assert (str(tensor.device), tensor.dtype) == ("cuda:1", torch.float32)
            assert type(tensor) is torch.Tensor
            assert not gone
            del tensor
            assert gone == [5]
        finally:
            pretended.on_free(None)
