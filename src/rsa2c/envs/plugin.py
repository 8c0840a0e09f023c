"""Our environments in Gymnasium's registry, whichever of the two is imported first."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from rsa2c.envs.known.lqr import LQR

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

REGISTRY = "gymnasium.envs.registration"


def register() -> None:
    """Let `gymnasium.make` know `rsa2c/LQR-v0`; doing so again changes nothing."""
    from gymnasium.envs import registration

    if LQR.id not in registration.registry:
        registration.register(LQR.id, entry_point="rsa2c.envs.lqr:LQREnv", max_episode_steps=LQR.episode_limit)


def register_when_imported() -> None:
    """Register now, or as soon as Gymnasium is imported: importing it for this alone would take half a second."""
    if REGISTRY in sys.modules:
        register()
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]


class _Finder:
    """Finds one module, once: Gymnasium's registry, with a loader that registers ours after it."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    """Gymnasium's own loader, and our registration after it."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.own.exec_module(module)
        register()
