"""The registry of interchangeable parts, which plug-ins extend."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import TypeVar, cast

_Part = TypeVar("_Part")
_Same = TypeVar("_Same")


class Registry(Mapping[str, _Part]):
    """Parts of one kind by name. A part with options is registered under the type of its config.

    Example:
        >>> from dataclasses import dataclass
        >>> shapes = Registry[str]("shape")
        >>> @dataclass
        ... class SquareConfig:
        ...     name: str = "square"
        >>> _ = shapes.register(SquareConfig)("four sides")
        >>> shapes["square"], shapes.find(SquareConfig()), list(shapes.config_types())
        ('four sides', 'four sides', ['square'])
    """

    def __init__(self, kind: str) -> None:
        """Create an empty registry.

        Args:
            kind: The word for a part, for messages.
        """
        self.kind = kind
        self._parts: dict[str, tuple[object, _Part]] = {}  # owner and part of each name

    def __getitem__(self, name: str) -> _Part:
        return self._parts[name][1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def register(self, key: type | str, *names: str) -> Callable[[_Same], _Same]:
        """Return a decorator that registers a class or a function.

        If the same class or function is defined again, for example because a notebook cell runs
        twice, the new definition replaces the old one.

        Args:
            key: The type of the part's config, or the name of a part without options.
            names: Names of the part, instead of the default of the config's field `name`.

        Raises:
            ValueError: The config has no default name, the name or the config is taken, or the part
                is a class that lacks a method.
        """
        names = names or (key if isinstance(key, str) else _default_name(key),)

        def register(part: _Same) -> _Same:
            owner = part if isinstance(key, str) else key
            for name, (other, _) in self._parts.items():
                is_again = other is not owner and _path(other) == _path(owner)
                if (name in names or other is owner) and not is_again:
                    config = "" if isinstance(key, str) else f" or its config {key.__name__}"
                    raise ValueError(f"{self.kind} {name!r}{config} is taken; choose another name")
            lacking = getattr(part, "__abstractmethods__", ()) if isinstance(part, type) else ()
            if missing := sorted(lacking):
                raise ValueError(f"{self.kind} {names[0]!r} must define {' and '.join(missing)}")
            self._parts |= {name: (owner, cast(_Part, part)) for name in names}
            return part

        return register

    def choose(self, name: str) -> _Part:
        """Return the part of a name that a user gave.

        Raises:
            ValueError: There is no such part.
        """
        if name not in self._parts:
            raise ValueError(
                f"unknown {self.kind} {name!r}; one of: {', '.join(self._parts)}; one of your own "
                "needs plugins=[FILE.py]"
            )
        return self[name]

    def config_types(self) -> dict[str, type]:
        """Return the config type of each name."""
        owned = {name: owner for name, (owner, part) in self._parts.items() if owner is not part}
        return cast(dict[str, type], owned)

    def find(self, config: object) -> _Part:
        """Return the part that was registered with the type of the config.

        Raises:
            KeyError: No part is registered with this type.
        """
        return dict(self._parts.values())[type(config)]


def _default_name(config_type: type) -> str:
    name = next((each.default for each in fields(config_type) if each.name == "name"), None)
    if not isinstance(name, str):
        raise ValueError(f"{config_type.__name__} needs a name: `name: str = ...`")
    return name


def _path(owner: object) -> object:
    """Return an identity that stays the same if a class or a function is defined twice."""
    return getattr(owner, "__module__", ""), getattr(owner, "__qualname__", id(owner))
