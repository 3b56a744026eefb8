"""The registry of interchangeable parts, each under its config type and a name."""

from dataclasses import fields
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Config = TypeVar("_Config", bound="DataclassInstance")
_Part = TypeVar("_Part")


class Registry(Generic[_Config, _Part]):
    """Finds the part that belongs to a config.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class SquareConfig:
        ...     name: str = "square"
        >>> shapes = Registry[SquareConfig, str]("shape")
        >>> shapes.add(SquareConfig, "four sides")
        >>> shapes.find(SquareConfig()), list(shapes.config_types())
        ('four sides', ['square'])
    """

    def __init__(self, kind: str) -> None:
        """Create an empty registry.

        Args:
            kind: The word for a part, for messages.
        """
        self._kind = kind
        self._parts: dict[str, tuple[type[_Config], _Part]] = {}

    def add(self, config_type: type[_Config], part: _Part) -> None:
        """Add a part under its config type and the default of the type's field `name`.

        A class that was defined again, by a cell of a notebook that ran twice, replaces itself.

        Raises:
            ValueError: The type has no default name, the name or the type is taken, or the part is
                a class that lacks a method.
        """
        name = self._name(config_type)
        for taken, (other, _) in self._parts.items():
            is_again = other is not config_type and _path(other) == _path(config_type)
            if (taken == name or other is config_type) and not is_again:
                raise ValueError(
                    f"{self._kind} {name!r} or its config {config_type.__name__} is taken; choose "
                    "another name"
                )
        if missing := sorted(getattr(part, "__abstractmethods__", ())):
            raise ValueError(f"{self._kind} {name!r} must define {' and '.join(missing)}")
        self._parts[name] = config_type, part

    def config_types(self) -> dict[str, type[_Config]]:
        """Return the config type of each name."""
        return {name: config_type for name, (config_type, _) in self._parts.items()}

    def find(self, config: _Config) -> _Part:
        """Return the part that was added with the type of the config.

        Raises:
            ValueError: There is none.
        """
        for config_type, part in self._parts.values():
            if config_type is type(config):
                return part
        raise ValueError(
            f"{type(config).__name__} is not the config of a registered {self._kind}; create it "
            f"from one of: {', '.join(each.__name__ for each in self.config_types().values())}"
        )

    def _name(self, config_type: type[_Config]) -> str:
        name = next((each.default for each in fields(config_type) if each.name == "name"), None)
        if not isinstance(name, str):
            raise ValueError(f"{config_type.__name__} needs a name: `name: str = ...`")
        return name


def _path(config_type: type) -> str:
    return f"{config_type.__module__}.{config_type.__qualname__}"
