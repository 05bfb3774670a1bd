"""Builds the native kernels; everything else is said in pyproject.toml."""

import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent))
from build_backend import use_compiler

use_compiler()

# The kernels compute what is written: no fused products, no reordering. The two flags after that change no result:
# nobody reads errno or the exception flags, and without them several numbers are computed at once.
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", "-g0"]
FOLDER = "src/dperm/kernel"

kernels = Extension(
    "dperm.kernel.native",
    [f"{FOLDER}/native.pyx", f"{FOLDER}/cpp/plain.cpp", f"{FOLDER}/cpp/avx2.cpp"],
    depends=[f"{FOLDER}/cpp/{name}.hpp" for name in ("kernels", "sums", "coded", "losses", "draws")],
    include_dirs=[FOLDER],
    define_macros=[("Py_LIMITED_API", "0x030b0000")],  # one wheel for every Python from 3.11 on
    extra_compile_args=FLAGS,
    py_limited_api=True,
    language="c++",
)
setup(
    ext_modules=cythonize([kernels], build_dir="build"),
    options={"bdist_wheel": {"py_limited_api": "cp311"}, "build_ext": {"parallel": 2}},
)
