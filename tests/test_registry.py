from abc import ABC, abstractmethod
from dataclasses import dataclass

import pytest

from seq2seq.registry import Registry


@dataclass
class ShapeConfig:
    name: str


@dataclass
class SquareConfig(ShapeConfig):
    name: str = "square"


@dataclass
class OtherSquareConfig(ShapeConfig):
    name: str = "square"


def new_registry() -> Registry[int]:
    registry = Registry[int]("shape")
    registry.register(SquareConfig)(4)
    return registry


def test_part_is_found_by_its_name_and_by_the_type_of_its_config():
    registry = new_registry()

    assert registry.find(SquareConfig(name="renamed")) == registry["square"] == 4
    assert registry.config_types() == {"square": SquareConfig}


def test_part_may_have_a_name_without_a_config_and_several_names_with_one():
    registry = new_registry()
    registry.register("circle")(0)
    registry.register(ShapeConfig, "triangle", "pyramid")(3)

    assert dict(registry) == {"square": 4, "circle": 0, "triangle": 3, "pyramid": 3}
    assert list(registry.config_types()) == ["square", "triangle", "pyramid"]


@pytest.mark.parametrize("config_type", [SquareConfig, OtherSquareConfig])
def test_name_or_config_that_is_taken_is_refused(config_type):
    registry = new_registry()

    with pytest.raises(ValueError, match=f"^shape 'square' or its config {config_type.__name__} "):
        registry.register(config_type)(5)

    assert registry.find(SquareConfig()) == 4


def test_class_that_lacks_methods_is_refused_with_their_names():
    class Sided(ABC):
        @abstractmethod
        def sides(self) -> int: ...

        @abstractmethod
        def area(self) -> float: ...

    class Square(Sided):
        def sides(self) -> int:
            return 4

    registry = Registry[type[Sided]]("shape")

    with pytest.raises(ValueError, match=r"^shape 'square' must define area and sides$"):
        registry.register(SquareConfig)(Sided)
    with pytest.raises(ValueError, match=r"^shape 'square' must define area$"):
        registry.register("square")(Square)

    assert not registry


def test_config_without_a_default_name_is_refused():
    with pytest.raises(ValueError, match=r"^ShapeConfig needs a name"):
        new_registry().register(ShapeConfig)


def test_class_that_is_defined_again_replaces_itself():
    registry = Registry[int]("shape")

    def run_cell(part: int) -> type[ShapeConfig]:
        @dataclass
        class CellConfig(ShapeConfig):
            name: str = "cell"

        registry.register(CellConfig)(part)
        return CellConfig

    first, second = run_cell(1), run_cell(2)

    assert registry.find(second()) == 2
    assert list(registry) == ["cell"]
    with pytest.raises(KeyError, match="CellConfig"):
        registry.find(first())


def test_config_of_no_part_is_named():
    with pytest.raises(KeyError, match="OtherSquareConfig"):
        new_registry().find(OtherSquareConfig())
