"""One process, and what is said of names that only make sense with many."""

import pytest

import fgrad


def test_there_is_one_process():
    assert fgrad.process_count() == 1 and fgrad.process_index() == 0
    assert fgrad.local_devices() == fgrad.devices() and fgrad.local_device_count() == fgrad.device_count()


@pytest.mark.parametrize("name", ["pmap", "shard_map", "transfer_guard", "live_arrays"])
def test_names_without_a_meaning_say_what_to_use(name):
    with pytest.raises(NotImplementedError, match=f"there is no fgrad.{name}: "):
        getattr(fgrad, name)(lambda x: x)
    assert name not in dir(fgrad)
    with pytest.raises(AttributeError, match="pmapp"):
        fgrad.pmapp  # noqa: B018
