"""setuptools' build backend, with a C++ compiler from the package index where the machine has none."""

import os
import shutil
import sys

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the hooks that stay as they are

# Clang with its own headers and libraries, as a package: 0.13 is the first that was tried.
ZIG = "ziglang>=0.13"


def has_compiler() -> bool:
    """Whether the machine has a C++ compiler, or the environment names one."""
    return "CXX" in os.environ or any(shutil.which(name) for name in ("c++", "g++", "clang++"))


def use_compiler() -> None:
    """Have setuptools call the packaged compiler where there is no other."""
    if not has_compiler():
        # For any processor of this kind, as other compilers do by default; the machine's own would be the default here.
        compiler = f"{sys.executable} -m ziglang c++ -mcpu=baseline"
        os.environ |= {
            "CC": compiler,
            "CXX": compiler,
            "LDSHARED": f"{compiler} -shared",
            "LDCXXSHARED": f"{compiler} -shared",
        }


def get_requires_for_build_wheel(config_settings: object = None) -> list[str]:
    """What the metadata name, and the compiler."""
    return [*build_meta.get_requires_for_build_wheel(config_settings), *([] if has_compiler() else [ZIG])]


def get_requires_for_build_editable(config_settings: object = None) -> list[str]:
    """The same."""
    return [*build_meta.get_requires_for_build_editable(config_settings), *([] if has_compiler() else [ZIG])]
