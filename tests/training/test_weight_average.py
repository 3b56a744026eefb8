import pytest
from torch import nn

from seq2seq.training.weight_average import WeightAverage


def tied_model() -> nn.Module:
    model = nn.ModuleDict({"first": nn.Linear(3, 3), "second": nn.Linear(3, 3)})
    model["second"].weight = model["first"].weight
    return model.double()


def set_to(model: nn.Module, value: float) -> None:
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)


def averages(model: nn.Module, average: WeightAverage) -> set[float]:
    with average.applied():
        return {value for each in model.parameters() for value in each.unique().tolist()}


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.9999])
def test_it_is_the_weighted_mean_of_all_updates(decay):
    model, values = tied_model(), [3.0, -1.0, 4.0, 1.5]
    average = WeightAverage(model, decay)

    for number, value in enumerate(values, start=1):
        set_to(model, value)
        average.add()
        shares = [decay ** (number - i) for i in range(1, number + 1)]
        expected = sum(s * v for s, v in zip(shares, values[:number], strict=True)) / sum(shares)
        (found,) = averages(model, average)
        assert found == pytest.approx(expected, rel=1e-12)


def test_the_parameters_stay_where_they_are_in_memory():
    """cuDNN reads those of a GRU from one block, and would copy them at each call otherwise."""
    model = tied_model()
    average = WeightAverage(model, 0.5)
    average.add()
    before = {name: each.data_ptr() for name, each in model.named_parameters()}

    with average.applied():
        assert {name: each.data_ptr() for name, each in model.named_parameters()} == before


def test_before_the_first_update_it_is_the_model_itself():
    model = tied_model()
    set_to(model, 2.0)

    assert averages(model, WeightAverage(model, 0.9)) == {2.0}


def test_the_model_gets_its_own_weights_back_also_after_an_error():
    model = tied_model()
    average = WeightAverage(model, 0.5)
    average.add()
    set_to(model, 7.0)

    with pytest.raises(RuntimeError, match="stop"), average.applied():
        raise RuntimeError("stop")

    assert all((each == 7.0).all() for each in model.parameters())


def test_it_continues_from_its_state():
    models = [tied_model(), tied_model()]
    first, second = (WeightAverage(model, 0.9) for model in models)
    set_to(models[0], 1.0)
    first.add()

    second.load_state(first.state())
    for model, average in zip(models, (first, second), strict=True):
        set_to(model, 5.0)
        average.add()

    assert averages(models[0], first) == averages(models[1], second)
