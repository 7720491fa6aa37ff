"""The compiler and its options, loaded when the first kernel is compiled.

In:  functions over arrays.
Out: `callable_from_python`, kept on disk unless ``STRUDEL_NUMBA_CACHE=0``; `callable_from_kernels`,
     which is part of the compiled code of its callers.

Loading takes half a second, and some questions are answered sooner (`strudel._numba`).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import lower_builtin, overload, type_callable

from strudel._compiling import compiler

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",  # log(0) is -inf and 0/0 is nan, without a check per division
    "no_cfunc_wrapper": True,  # an entry from C, which nobody uses
}
_is_kept = os.environ.get("STRUDEL_NUMBA_CACHE", "1") != "0"


def callable_from_python(function: Callable[..., Any]) -> Any:
    """Compile a kernel when it is called, or find it on disk."""
    global _is_kept
    dispatcher: Any = numba.njit(**_OPTIONS)(function)
    if _is_kept:
        try:
            dispatcher.enable_caching()
        except RuntimeError:
            _is_kept = False
            warnings.warn(
                "No folder is writable for compiled code, so it is compiled again in every "
                "process. Set NUMBA_CACHE_DIR to a writable folder to keep it.",
                stacklevel=5,
            )
    return dispatcher


def callable_from_kernels(function: Callable[..., Any]) -> Any:
    """Compile a kernel as part of those that call it.

    It has no entry from Python, and takes every signed integer as int64. Without this the first
    `fit` took 1.4 times as long to compile: 0, an int32 read from an array and an int64 made three
    copies of the same function.
    """
    options = _OPTIONS | {"no_cpython_wrapper": True, "pipeline_class": _InnerCompiler}
    dispatcher: Any = numba.njit(**options)(function)
    get_call_template = dispatcher.get_call_template

    def get_widened(args: Any, kws: Any) -> Any:
        widened = {name: _widened(arg) for name, arg in kws.items()}
        return get_call_template([_widened(arg) for arg in args], widened)

    dispatcher.get_call_template = get_widened
    return dispatcher


class _InnerCompiler(Compiler):
    """Compiles a kernel only as far as its callers need it."""

    def define_pipelines(self) -> Any:
        codegen, name = self.state.targetctx.codegen(), self.state.func_id.func_qualname
        self.state.library = _InnerLibrary(codegen, name)  # type: ignore[no-untyped-call]
        return super().define_pipelines()  # type: ignore[no-untyped-call]


class _InnerLibrary(JITCodeLibrary):
    """The code of an inner kernel, which its callers make machine code together with their own.

    By default that is done here as well, which takes a tenth of the time of a first `fit`. To leave
    it to the callers to optimise it would save as much again, but learning gets slower.
    """

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0  # there is none

    @property
    def codegen(self) -> Any:
        return self  # asked only for `set_env`

    def set_env(self, name: str, env: Any) -> None:
        """Environments are those of code that uses Python objects."""


def _widened(arg: Any) -> Any:
    arg = types.unliteral(arg)  # type: ignore[no-untyped-call]
    return types.int64 if arg in types.signed_domain else arg


def teach_bits(popcount: Callable[..., int], lowest_bit: Callable[..., int]) -> None:
    """Compile two functions of a word to one instruction each."""

    def of_word(context: Any) -> Any:
        return lambda word: types.int64(types.uint64)

    def count(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    def find(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, True))

    for function, generate in ((popcount, count), (lowest_bit, find)):
        type_callable(function)(of_word)
        lower_builtin(function, types.uint64)(generate)  # type: ignore[no-untyped-call]


def teach_lanes(lane: Callable[..., Any]) -> None:
    """Choose by type between a parameter per lane and a shared one, which then costs nothing."""

    def of_lane(theta: Any, b: Any) -> Any:
        def own(theta: Any, b: Any) -> Any:
            return theta[b]

        def shared(theta: Any, b: Any) -> Any:
            return theta

        return own if isinstance(theta, types.Array) else shared

    overload(lane, inline="always")(of_lane)


class _Listener(event.Listener):
    """Passes on what the compiler does."""

    def on_start(self, event: Any) -> None:
        compiler.on_start()

    def on_end(self, event: Any) -> None:
        compiler.on_end()


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]
